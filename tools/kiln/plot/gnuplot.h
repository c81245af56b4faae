/* gnuplot, run as a program: the formats of its pictures, the texts in its scripts, and the picture of a script. */
#ifndef KILN_TOOLS_GNUPLOT_H
#define KILN_TOOLS_GNUPLOT_H

#include <stddef.h>
#include <stdio.h>

#include "files/whole.h"

/* A kind of picture; static. */
typedef struct gnuplot_format gnuplot_format;

/* The format that the ending of a file's name stands for: .svg, .png or .pdf; "-" is SVG. NULL for any other name. */
const gnuplot_format *gnuplot_format_of(const char *path);

/* The path of the program, which can draw the format; or NULL, and *complaint says why. */
char *gnuplot_find(char **complaint, const gnuplot_format *format);

/* Begins a script for a picture of that many pixels, and names the colours and fonts of all pictures: ink, muted, rule
 * and faint; plain and bold, to be followed by a comma and a size. */
void gnuplot_begin(FILE *script, const gnuplot_format *format, double width, double height);

/* Writes a text as a string of gnuplot's. The script has only letters, digits, blanks and escapes of it, so that
 * nothing in it is code. Bytes that are not UTF-8, or not allowed in XML, become U+FFFD. */
void gnuplot_text(FILE *script, const char *text);

/* The same for the label of a tic, which gnuplot takes for a format. */
void gnuplot_tic(FILE *script, const char *text);

/* Draws: *out is the picture. Returns STATUS_DONE; or STATUS_FAILED, and *complaint says why. */
int gnuplot_draw(char **out, size_t *length, char **complaint, const char *program, const gnuplot_format *format,
                 const struct draft *script);

#endif
