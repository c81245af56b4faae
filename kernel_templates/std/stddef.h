/* size_t and ptrdiff_t are the compiler's own. */
#ifndef KILN_STD_STDDEF_H
#define KILN_STD_STDDEF_H

typedef decltype(nullptr) nullptr_t;

#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) ((size_t) & ((type *)0)->member)
#endif

#endif
