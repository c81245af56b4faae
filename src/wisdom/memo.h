/* Answers that were given, by query: so that asking again compares no records. Sharded, so that different queries
 * seldom meet. Any thread after init. */
#ifndef KILN_WISDOM_MEMO_H
#define KILN_WISDOM_MEMO_H

#include "wisdom/match.h"
#include <pthread.h>

enum {
    KILN__WISDOM_SHARDS = 8,
    KILN__WISDOM_SHARD_MAX = 64 /* answers in one; a full one begins anew */
};

typedef struct kiln__wisdom_answer kiln__wisdom_answer;

typedef struct kiln__wisdom_shard {
    pthread_mutex_t lock;
    uint64_t generation;          /* of the records that the answers are from */
    kiln__wisdom_answer *answers; /* a table by key */
} kiln__wisdom_shard;

/* Embedded in its owner. */
typedef struct kiln__wisdom_memo {
    kiln__wisdom_shard shards[KILN__WISDOM_SHARDS];
} kiln__wisdom_memo;

void kiln__wisdom_memo_init(kiln__wisdom_memo *memo);
void kiln__wisdom_memo_fini(kiln__wisdom_memo *memo);

/* The answer that those bytes got from records of that generation. Answers of earlier generations are forgotten. */
bool kiln__wisdom_memo_find(kiln__wisdom_memo *memo, uint64_t generation, const void *key, size_t length,
                            kiln__wisdom_choice *out);

/* Remembers an answer, unless one of a later generation was asked for meanwhile or memory runs out. */
void kiln__wisdom_memo_add(kiln__wisdom_memo *memo, uint64_t generation, const void *key, size_t length,
                           const kiln__wisdom_choice *choice);

#endif
