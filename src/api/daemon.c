/* The public functions of <kiln/daemon.h>. */
#include <kiln/daemon.h>

#include "api/structs.h"
#include "base/alloc.h"
#include "daemon/server.h"
#include <errno.h>
#include <string.h>

static kiln_status take_options(kiln_options *full, const kiln_options *options, kiln_report *report)
{
    return kiln__take_in(full, sizeof(*full), options, "kiln_options", KILN__STAGE_OPEN, report);
}

kiln_status kiln_serve(const kiln_serve_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    kiln_serve_options full = KILN_INIT(kiln_serve_options);
    kiln_options service = KILN_INIT(kiln_options);
    kiln__report_begin(report);
    kiln_status status = kiln__take_in(&full, sizeof(full), options, "kiln_serve_options", KILN__STAGE_OPEN, report);
    if (status == KILN_OK)
        status = take_options(&service, full.service, report);
    return status == KILN_OK ? kiln__serve(&service, full.idle_s, full.ready, full.data, report) : status;
}

/* An error of the client in words. */
static kiln_status fail_at(const char *socket, int error, const char *why, kiln_report *report)
{
    if (error == -ENOMEM)
        return kiln__fail_memory(report, KILN__STAGE_OPEN);
    if (error == -ENOENT || error == -ECONNREFUSED)
        return kiln__fail(report, KILN_ENOENT, KILN__STAGE_OPEN, -error,
                          "no daemon answers at %s: start one with kiln serve", socket);
    return kiln__fail(report, error == -ETIMEDOUT ? KILN_ETIMEDOUT : KILN_EIO, KILN__STAGE_OPEN, -error,
                      "the daemon at %s is of no use: %s", socket, why[0] != '\0' ? why : strerror(-error));
}

/* The path of the socket, which the caller frees. */
static kiln_status find_socket(char **out, const kiln_options *options, kiln_report *report)
{
    char *directory = NULL;
    kiln_options full = KILN_INIT(kiln_options);
    kiln_status status = take_options(&full, options, report);
    if (status == KILN_OK)
        status = kiln__options_complete(&full, &directory, report);
    *out = status == KILN_OK ? kiln__options_socket(&full) : NULL;
    if (status == KILN_OK && *out == NULL)
        status = kiln__fail_memory(report, KILN__STAGE_OPEN);
    kiln__free(directory);
    return status;
}

kiln_status kiln_daemon_figures(char **out, const kiln_options *options, kiln_report *report)
{
    KILN__NO_CANCEL;
    char *socket;
    const char *why = "";
    kiln__report_begin(report);
    KILN__REQUIRE_OUT(report, KILN__STAGE_OPEN, out);
    kiln_status status = find_socket(&socket, options, report);
    const int error = status == KILN_OK ? kiln__daemon_ask_figures(socket, out, &why) : 0;
    if (error != 0)
        status = fail_at(socket, error, why, report);
    kiln__free(socket);
    return status;
}

kiln_status kiln_daemon_stop(const kiln_options *options, uint32_t wait_ms, kiln_report *report)
{
    KILN__NO_CANCEL;
    char *socket;
    const char *why = "";
    kiln__report_begin(report);
    kiln_status status = find_socket(&socket, options, report);
    const int error = status == KILN_OK ? kiln__daemon_stop(socket, wait_ms, &why) : 0;
    if (error != 0)
        status = fail_at(socket, error, why, report);
    kiln__free(socket);
    return status;
}
