#include "plot/marker.h"

#include <math.h>

#include "plot/colour.h"

typedef enum shape { CIRCLE, SQUARE, TRIANGLE, DIAMOND, TRIANGLE_DOWN, CROSS, PENTAGON, SHAPES } shape;

static void draw_polygon(struct svg *svg, double x, double y, double radius, int corners, double turn)
{
    svg_path_begin(svg);
    for (int i = 0; i < corners; i++) {
        double angle = (turn + (double)i / corners) * 2 * M_PI;
        svg_path_point(svg, i ? 'L' : 'M', x + radius * sin(angle), y - radius * cos(angle));
    }
    svg_path_point(svg, 'Z', 0, 0);
    svg_path_end(svg);
}

static void draw_cross(struct svg *svg, double x, double y, double arm)
{
    static const signed char corners[][2] = { { 0, 1 },  { 1, 2 },   { 2, 1 },   { 1, 0 },  { 2, -1 }, { 1, -2 },
                                              { 0, -1 }, { -1, -2 }, { -2, -1 }, { -1, 0 }, { -2, 1 }, { -1, 2 } };
    svg_path_begin(svg);
    for (size_t i = 0; i < sizeof(corners) / sizeof(corners[0]); i++)
        svg_path_point(svg, i ? 'L' : 'M', x + arm * corners[i][0], y + arm * corners[i][1]);
    svg_path_point(svg, 'Z', 0, 0);
    svg_path_end(svg);
}

void marker_begin(struct svg *svg, size_t series, double x, double y)
{
    shape kind = (shape)(series % SHAPES);
    if (kind == CIRCLE) {
        svg_open(svg, "circle");
        svg_put_number(svg, "cx", x);
        svg_put_number(svg, "cy", y);
        svg_put_number(svg, "r", 4);
    } else if (kind == SQUARE)
        draw_polygon(svg, x, y, 5, 4, 0.125);
    else if (kind == TRIANGLE)
        draw_polygon(svg, x, y + 0.5, 5.2, 3, 0);
    else if (kind == DIAMOND)
        draw_polygon(svg, x, y, 5.2, 4, 0);
    else if (kind == TRIANGLE_DOWN)
        draw_polygon(svg, x, y - 0.5, 5.2, 3, 0.5);
    else if (kind == CROSS)
        draw_cross(svg, x, y, 2.2);
    else
        draw_polygon(svg, x, y, 4.8, 5, 0);
    svg_put_colour(svg, "fill", colour_series(series));
    svg_put_colour(svg, "stroke", COLOUR_PAPER);
}
