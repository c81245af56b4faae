/* elevated DIRECTORY: run with more rights than its user has, tells whether Kiln uses a cache. 0: it does not, as it
 * should; 77: this process has no such rights; else what is wrong is said. */
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

enum { NOT_ELEVATED = 77 };

#if defined(__SANITIZE_ADDRESS__)
/* Such a process may not look into itself, as LeakSanitizer would, nor does AddressSanitizer find its environment. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

static int warnings;

static void count_line(void *data, kiln_log_level level, const char *message)
{
    (void)data;
    warnings += level == KILN_LOG_WARN && strstr(message, "setuid") != NULL;
}

/* With no directory the environment names one. */
static int check(const char *directory, unsigned refusals)
{
    kiln_options options = KILN_INIT(kiln_options);
    kiln_stats stats = KILN_INIT(kiln_stats);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service;
    options.cache_dir = directory;
    options.device = "cpu";
    options.log = count_line;
    warnings = 0;
    if (kiln_open(&service, &options, &report) != KILN_OK) {
        printf("kiln_open: %s\n", report.message);
        return 1;
    }
    kiln_stats_get(service, &stats);
    kiln_cache_info info = KILN_INIT(kiln_cache_info);
    kiln_status found = kiln_cache_get_info(service, &info, NULL);
    const char *used = found == KILN_OK ? info.directory : "";
    int wrong = found != KILN_ENOENT || stats.store_untrusted != refusals || warnings != (int)refusals;
    if (wrong)
        printf("directory '%s', %u refusals and %d warnings; expected none, %u and %u\n", used,
               (unsigned)stats.store_untrusted, warnings, refusals, refusals);
    kiln_close(service);
    return wrong;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    if (getauxval(AT_SECURE) == 0)
        return NOT_ELEVATED;
    return check(NULL, 0) || check(argv[1], 1);
}
