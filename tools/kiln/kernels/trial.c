/* Verifies launches, and times kernels and copies. */
#include "kernels/trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/spectext.h"

int verify_launch(verified_launch *out, struct session *session, kiln_kernel *kernel, const uint64_t *sizes,
                  size_t size_count, const kiln_arg *args, size_t arg_count)
{
    *out = (verified_launch){ .found = KILN_INIT(kiln_verification) };
    kiln_status status = kiln_verify(&out->found, session->service, kernel, NULL, sizes, size_count, args, arg_count,
                                     NULL, &session->report);
    out->differs = out->found.wrong > 0 || (out->found.bound >= 0 && out->found.worst > out->found.bound);
    return session_status(session, status, out->differs ? NULL : "cannot verify") ? STATUS_FAILED : STATUS_DONE;
}

/* With the fewest digits that are read back as the same number. */
static char *shortest(double value)
{
    char *text = need_format("%.1g", value);
    for (int digits = 2; digits <= 17 && strtod(text, NULL) != value; digits++)
        text = need_format("%.*g", digits, value);
    char *exponent = strstr(text, "e-0");
    if (exponent) /* as declarations have it: 1e-5 */
        memmove(exponent + 2, exponent + 3, strlen(exponent + 2));
    return text;
}

char *tolerance_text(double ulp, double relative, double absolute)
{
    char *text = need_copy("");
    if (ulp > 0)
        text_append(&text, " ", "ulp %s", shortest(ulp));
    if (relative > 0)
        text_append(&text, " ", "relative %s", shortest(relative));
    if (absolute > 0)
        text_append(&text, " ", "absolute %s", shortest(absolute));
    return text;
}

kiln_status submit_launch(void *data, void *stream)
{
    const launch_job *job = data;
    return kiln_launch(job->kernel, NULL, job->sizes, job->size_count, job->args, job->arg_count, stream, job->report);
}

uint64_t copy_bytes(uint64_t traffic)
{
    uint64_t bytes = traffic / 2 / 4 * 4;
    return bytes ? bytes : 4;
}

kiln_status copy_kernel(copy_job *job, kiln_service *service, const char *spec_text)
{
    kiln_spec *spec = NULL;
    const char *target = spectext_field(spec_text, "target");
    const char *text = need_format("op=copy dtype=f32 target=%s", target ? target : "native");
    kiln_status status = kiln_spec_parse(&spec, service, text, job->report);
    if (!status)
        status = kiln_get_kernel(&job->kernel, service, spec, job->report);
    kiln_spec_free(spec);
    return status;
}

kiln_status submit_copy(void *data, void *stream)
{
    const copy_job *job = data;
    return kiln_copy(job->device, job->to, job->from, job->bytes, stream, job->report);
}

kiln_status submit_copy_kernel(void *data, void *stream)
{
    copy_job *job = data;
    return kiln_launch_n(job->kernel, job->bytes / 4, &job->to, 1, &job->from, 1, stream, job->report);
}

int paired_order(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

/* How many of so many sorted values lie outside the interval on each side, plus one; 0: there is no interval. Each
 * value is on either side of the true median with probability 1/2. */
static uint32_t interval_rank(uint32_t count)
{
    double term = pow(0.5, count), below = term;
    uint32_t rank = 0;
    while (below <= 0.005 && rank < count / 2) {
        rank++;
        term *= (double)(count - rank + 1) / rank;
        below += term;
    }
    return rank;
}

paired paired_ratio(const double *samples, size_t contenders, uint32_t rounds, size_t one, size_t other)
{
    double *ratios = need_array(NULL, rounds, sizeof(*ratios));
    for (uint32_t r = 0; r < rounds; r++)
        ratios[r] = samples[r * contenders + one] / samples[r * contenders + other];
    qsort(ratios, rounds, sizeof(*ratios), paired_order);
    uint32_t rank = interval_rank(rounds);
    return (paired){
        .median = rounds % 2 ? ratios[rounds / 2] : (ratios[rounds / 2 - 1] + ratios[rounds / 2]) / 2,
        .low = rank ? ratios[rank - 1] : 0,
        .high = rank ? ratios[rounds - rank] : HUGE_VAL,
    };
}
