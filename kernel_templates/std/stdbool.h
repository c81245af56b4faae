/* The words are those of C++. */
#ifndef KILN_STD_STDBOOL_H
#define KILN_STD_STDBOOL_H

#define __bool_true_false_are_defined 1

#endif
