/* Warms a cache from a manifest, before the first request needs a kernel.
 *
 *     cc warm.c $(pkg-config --cflags --libs kiln) -o warm && ./warm kernels.txt sm_80,sm_90
 *
 * Without arguments it warms two kernels for the cpu. Threads of the service compile; it needs no GPU. */
#include <kiln/kiln.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_MAX = 1 << 20 };

static const char example[] = "define op twice(x) = x + x\n"
                              "op=twice,hardsigmoid dtype=f32  # two kernels\n";

static kiln_report report = KILN_INIT(kiln_report);
static int failed;

static void must(kiln_status status, const char *what)
{
    if (status != KILN_OK) {
        fprintf(stderr, "%s: %s\n", what, report.message);
        exit(1);
    }
}

/* The end of a request, whose line is the data. */
static void on_program(void *data, kiln_status status, kiln_program *program, const kiln_report *why)
{
    kiln_program_info info = KILN_INIT(kiln_program_info);
    size_t line = (size_t)data;
    if (status == KILN_OK && kiln_program_get_info(program, &info) == KILN_OK)
        printf("line %zu: %s: %s\n", line, info.origin_name, info.spec);
    else
        fprintf(stderr, "line %zu: %s\n", line, why->message);
    failed += status != KILN_OK;
    kiln_program_release(program);
}

/* A definition is made already, so only specs are submitted. */
static int on_line(void *data, const kiln_manifest_line *line)
{
    kiln_queue *queue = data;
    kiln_request request = KILN_INIT(kiln_request);
    request.spec = line->spec;
    request.goal = KILN_BUILD;
    if (line->problem[0] != '\0')
        fprintf(stderr, "line %zu is skipped: %s\n", line->number, line->problem);
    if (line->spec != NULL)
        must(kiln_submit(NULL, queue, &request, NULL, on_program, (void *)line->number, &report), "submit");
    return 0;
}

static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, TEXT_MAX + 1);
    if (file == NULL || text == NULL) {
        perror(path);
        exit(1);
    }
    *length = fread(text, 1, TEXT_MAX, file);
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    kiln_manifest manifest = KILN_INIT(kiln_manifest);
    kiln_service *service;
    kiln_queue *queue;
    char *text = argc > 1 ? read_file(argv[1], &manifest.length) : NULL;
    manifest.text = text != NULL ? text : example;
    manifest.name = argc > 1 ? argv[1] : NULL;
    manifest.target = argc > 2 ? argv[2] : argc > 1 ? "native" : "cpu";

    must(kiln_open(&service, NULL, &report), "open");
    must(kiln_queue_open(&queue, service, &report), "queue");
    must(kiln_manifest_read(service, &manifest, on_line, queue, &report), "manifest");
    while (kiln_queue_wait(queue, -1) > 0)
        ;
    kiln_queue_close(queue, NULL, NULL);
    kiln_close(service);
    free(text);
    return failed > 0;
}
