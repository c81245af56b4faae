/* elsewhere LIBRARY DIRECTORY: goes to DIRECTORY and says what Kiln takes for its compile worker there: "<ok> <path>
 * <detail>". Kiln is the shared library that the loader finds by the name LIBRARY, or, where that is "", this
 * program itself. */
#include <dlfcn.h>
#include <kiln/kiln.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
/* The library is here twice. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0:detect_odr_violation=0";
}
#endif

static int tell(void *data, const kiln_finding *finding)
{
    (void)data;
    if (strcmp(finding->what, "compile worker") == 0)
        printf("%d %s %s\n", finding->ok, finding->path, finding->detail);
    return 0;
}

int main(int argc, char **argv)
{
    kiln_options options = KILN_INIT(kiln_options);
    kiln_report report = KILN_INIT(kiln_report);
    kiln_service *service;
    kiln_status (*open)(kiln_service **, const kiln_options *, kiln_report *) = kiln_open;
    kiln_status (*doctor)(kiln_service *, kiln_finding_fn, void *) = kiln_doctor;
    void *library = argc == 3 && argv[1][0] != '\0' ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (argc != 3 || (argv[1][0] != '\0' && library == NULL) || chdir(argv[2]) != 0)
        return 2;
    if (library != NULL) {
        *(void **)&open = dlsym(library, "kiln_open");
        *(void **)&doctor = dlsym(library, "kiln_doctor");
    }
    options.cache_dir = "";
    options.device = "cpu";
    if (open(&service, &options, &report) != KILN_OK) {
        printf("kiln_open: %s\n", report.message);
        return 1;
    }
    return doctor(service, tell, NULL) == KILN_OK ? 0 : 1;
}
