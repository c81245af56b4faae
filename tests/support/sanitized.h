/* What a test cannot do under a sanitizer. */
#ifndef KILN_TESTS_SANITIZED_H
#define KILN_TESTS_SANITIZED_H

#if !defined(__has_feature)
#define __has_feature(name) 0
#endif

/* A child forked while other threads allocate may find the address sanitizer's own locks held for ever, and gcc's
 * thread sanitizer takes its threads for its parent's. clang's can do it, if told that threads are started there:
 * runner.c. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer)
enum { KILN_TEST_SANITIZED = 1, KILN_TEST_CAN_FORK = 0 };
#elif __has_feature(thread_sanitizer)
enum { KILN_TEST_SANITIZED = 1, KILN_TEST_CAN_FORK = 1 };
#else
enum { KILN_TEST_SANITIZED = 0, KILN_TEST_CAN_FORK = 1 };
#endif

#endif
