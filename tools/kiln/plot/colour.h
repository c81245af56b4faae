/* The colours of the plots. */
#ifndef KILN_TOOLS_COLOUR_H
#define KILN_TOOLS_COLOUR_H

#include <stddef.h>
#include <stdint.h>

/* The paper, and the inks on it: 0xRRGGBB. */
enum {
    COLOUR_PAPER = 0xffffff,
    COLOUR_INK = 0x1f2328,
    COLOUR_MUTED = 0x59636e,
    COLOUR_RULE = 0xd8dee4,
    COLOUR_FAINT = 0xf2f4f6,
    COLOUR_HATCH = 0xb9c1c9
};

/* From dark violet (0) over blue and green to light yellow (1), in steps that look equal: lightness and hue change
 * evenly, so that it also reads in grey and with any colour vision. */
uint32_t colour_scale(double position);

/* Dark or light: the ink that is read better on this ground. */
uint32_t colour_ink_on(uint32_t ground);

/* Colours that are told apart; COLOUR_SERIES of them, then again from the first. */
enum { COLOUR_SERIES = 8 };
uint32_t colour_series(size_t index);

#endif
