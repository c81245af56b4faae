#include "cli/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void screen_open(struct screen *out)
{
    const char *kind = getenv("TERM");
    *out = (struct screen){ .terminal = isatty(STDOUT_FILENO) && kind && strcmp(kind, "dumb") != 0 };
}

/* Lines on the screen, where a long one is broken. */
static size_t count_lines(const char *text, size_t width)
{
    size_t lines = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        lines += length > width ? (length + width - 1) / width : 1;
        text += length + (text[length] == '\n');
    }
    return lines;
}

void screen_show(struct screen *screen, const char *text)
{
    struct winsize size = { .ws_row = 0 };
    if (screen->terminal && (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row))
        size = (struct winsize){ .ws_row = 24, .ws_col = 80 };
    if (screen->terminal && screen->lines > 0) {
        /* What has gone beyond the upper edge cannot be reached. */
        size_t up = screen->lines < size.ws_row ? screen->lines : size.ws_row - 1u;
        printf("\033[%zuA\r\033[J", up);
    }
    fputs(text, stdout);
    fflush(stdout);
    screen->lines = screen->terminal ? count_lines(text, size.ws_col) : 0;
}
