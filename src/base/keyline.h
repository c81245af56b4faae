/* The first lines of key texts: a form and its version. An entry whose key text begins with another version of one of
 * these forms is of another version of Kiln, and no look-up of this one finds it. */
#ifndef KILN_BASE_KEYLINE_H
#define KILN_BASE_KEYLINE_H

#define KILN__KEYLINE_KERNEL    "kiln-key 3\n"
#define KILN__KEYLINE_SOURCE    "kiln-source 3\n"
#define KILN__KEYLINE_READS     "kiln-reads 3\n"
#define KILN__KEYLINE_TOOLCHAIN "kiln-toolchain 1\n"

#endif
