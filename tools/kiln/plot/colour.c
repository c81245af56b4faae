#include "plot/colour.h"

#include <math.h>

typedef struct rgb {
    double red, green, blue; /* light, not codes: linear, 0 to 1 */
} rgb;

static double limit(double value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

static uint32_t encode(double light)
{
    light = limit(light);
    double code = light <= 0.0031308 ? 12.92 * light : 1.055 * pow(light, 1 / 2.4) - 0.055;
    return (uint32_t)(code * 255 + 0.5);
}

static double decode(uint32_t code)
{
    double value = (code & 0xFF) / 255.0;
    return value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4);
}

/* Oklab, where distances are differences as they are seen (Ottosson 2020). */
static rgb from_oklab(double lightness, double a, double b)
{
    double l = lightness + 0.3963377774 * a + 0.2158037573 * b;
    double m = lightness - 0.1055613458 * a - 0.0638541728 * b;
    double s = lightness - 0.0894841775 * a - 1.2914855480 * b;
    l = l * l * l;
    m = m * m * m;
    s = s * s * s;
    return (rgb){ 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
                  -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                  -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s };
}

uint32_t colour_scale(double position)
{
    /* a and b of Oklab at equal distances along the way; all of it can be shown in sRGB. */
    static const double anchors[][2] = { { 0.067, -0.116 },  { 0.014, -0.134 },  { -0.036, -0.120 },
                                         { -0.063, -0.069 }, { -0.093, -0.020 }, { -0.125, 0.028 },
                                         { -0.130, 0.080 },  { -0.099, 0.128 },  { -0.053, 0.162 } };
    enum { STEPS = sizeof(anchors) / sizeof(anchors[0]) - 1 };
    position = limit(position);
    int step = position < 1 ? (int)(position * STEPS) : STEPS - 1;
    double part = position * STEPS - step;
    double a = anchors[step][0] + part * (anchors[step + 1][0] - anchors[step][0]);
    double b = anchors[step][1] + part * (anchors[step + 1][1] - anchors[step][1]);
    rgb light = from_oklab(0.27 + 0.65 * position, a, b);
    return encode(light.red) << 16 | encode(light.green) << 8 | encode(light.blue);
}

static double luminance(uint32_t colour)
{
    return 0.2126 * decode(colour >> 16) + 0.7152 * decode(colour >> 8) + 0.0722 * decode(colour);
}

uint32_t colour_ink_on(uint32_t ground)
{
    /* The contrast ratios of WCAG 2. */
    double light = luminance(ground) + 0.05;
    return 1.05 / light > light / (luminance(COLOUR_INK) + 0.05) ? COLOUR_PAPER : COLOUR_INK;
}

uint32_t colour_series(size_t index)
{
    static const uint32_t colours[COLOUR_SERIES] = { 0x1f6fb8, 0xd1490c, 0x15845a, 0x8e44ad,
                                                     0xa86b00, 0x0e93ad, 0xcf3a78, 0x4d5a68 };
    return colours[index % COLOUR_SERIES];
}
