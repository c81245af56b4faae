/* gnuplot, run as a program: the formats of its pictures, the texts in its scripts, and the picture of a script. */
#ifndef KILN_TOOLS_GNUPLOT_H
#define KILN_TOOLS_GNUPLOT_H

#include <stddef.h>
#include <stdio.h>

/* A kind of picture; static. */
typedef struct gnuplot_format gnuplot_format;

/* The format that the ending of a file's name stands for: .svg, .png or .pdf; "-" is SVG. NULL for any other name. */
const gnuplot_format *gnuplot_format_of(const char *path);

/* Finds the program and sees it set up the format. *out is its path, which the caller frees. Returns STATUS_DONE; or
 * STATUS_USAGE, with what is wrong in *complaint, which the caller frees, and *out is NULL. */
int gnuplot_find(char **out, char **complaint, const gnuplot_format *format);

/* Begins a script for a picture of that many pixels, and names the colours and fonts of all pictures: ink, muted, rule
 * and faint; plain and bold, to be followed by a comma and a size. */
void gnuplot_begin(FILE *script, const gnuplot_format *format, double width, double height);

/* Writes a text as a string of gnuplot's. The script has only letters, digits, blanks and escapes of it, so that
 * nothing in it is code. Bytes that are not UTF-8, or not allowed in XML, become U+FFFD. */
void gnuplot_text(FILE *script, const char *text);

/* The same for the label of a tic, which gnuplot takes for a format. */
void gnuplot_tic(FILE *script, const char *text);

/* About how many pixels a text of this letter size takes. */
double gnuplot_text_width(const char *text, double size);

/* Draws. *out is the picture, which the caller frees. Returns STATUS_DONE; or STATUS_FAILED, with what is wrong in
 * *complaint, which the caller frees, and *out is NULL. */
int gnuplot_draw(char **out, size_t *length, char **complaint, const char *program, const gnuplot_format *format,
                 const char *script, size_t script_length);

#endif
