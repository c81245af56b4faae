#include "kernels/submit.h"

kiln_status submit_launch(void *data, void *stream)
{
    const launch_job *job = data;
    return kiln_launch_n(job->kernel, job->n, &job->out, 1, job->in, job->in_count, stream, job->report);
}

kiln_status submit_copy(void *data, void *stream)
{
    const copy_job *job = data;
    return kiln_copy(job->device, job->to, job->from, job->bytes, stream, job->report);
}
