/* assert is the compiler's own; whether it is on may change from one inclusion to the next. */
#ifdef NDEBUG
#undef assert
#define assert(condition) ((void)0)
#endif
