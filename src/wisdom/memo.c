#include "wisdom/memo.h"

#include "base/alloc.h"
#include "base/table.h"
#include <string.h>

struct kiln__wisdom_answer {
    UT_hash_handle hh;
    kiln__wisdom_choice choice;
    uint8_t key[];
};

void kiln__wisdom_memo_init(kiln__wisdom_memo *memo)
{
    memset(memo, 0, sizeof(*memo));
    for (int i = 0; i < KILN__WISDOM_SHARDS; i++)
        pthread_mutex_init(&memo->shards[i].lock, NULL);
}

static void forget(kiln__wisdom_shard *shard)
{
    kiln__wisdom_answer *answer, *next;
    HASH_ITER (hh, shard->answers, answer, next) {
        HASH_DEL(shard->answers, answer);
        kiln__free(answer);
    }
}

void kiln__wisdom_memo_fini(kiln__wisdom_memo *memo)
{
    for (int i = 0; i < KILN__WISDOM_SHARDS; i++) {
        forget(&memo->shards[i]);
        pthread_mutex_destroy(&memo->shards[i].lock);
    }
}

/* The upper half of a hash chooses the shard, because the lower half chooses the bucket in it. */
static kiln__wisdom_shard *shard_of(kiln__wisdom_memo *memo, uint64_t hash)
{
    return &memo->shards[(hash >> 32) % KILN__WISDOM_SHARDS];
}

/* With the lock held. */
static kiln__wisdom_answer *find(const kiln__wisdom_shard *shard, const void *key, size_t length, uint64_t hash)
{
    kiln__wisdom_answer *answer;
    HASH_FIND_BYHASHVALUE(hh, shard->answers, key, length, (unsigned)hash, answer);
    return answer;
}

bool kiln__wisdom_memo_find(kiln__wisdom_memo *memo, uint64_t generation, const void *key, size_t length,
                            kiln__wisdom_choice *out)
{
    uint64_t hash = kiln__hash(key, length);
    kiln__wisdom_shard *shard = shard_of(memo, hash);
    const kiln__wisdom_answer *answer = NULL;
    pthread_mutex_lock(&shard->lock);
    if (shard->generation < generation) {
        forget(shard);
        shard->generation = generation;
    }
    if (shard->generation == generation)
        answer = find(shard, key, length, hash);
    if (answer != NULL)
        *out = answer->choice;
    pthread_mutex_unlock(&shard->lock);
    return answer != NULL;
}

/* The later of two threads with one query adds nothing: both answers are equal. */
void kiln__wisdom_memo_add(kiln__wisdom_memo *memo, uint64_t generation, const void *key, size_t length,
                           const kiln__wisdom_choice *choice)
{
    uint64_t hash = kiln__hash(key, length);
    kiln__wisdom_shard *shard = shard_of(memo, hash);
    kiln__wisdom_answer *answer = kiln__alloc(sizeof(*answer) + length);
    bool added = false;
    if (answer == NULL)
        return;
    answer->choice = *choice;
    memcpy(answer->key, key, length);
    pthread_mutex_lock(&shard->lock);
    if (HASH_COUNT(shard->answers) == KILN__WISDOM_SHARD_MAX)
        forget(shard);
    if (shard->generation == generation && find(shard, key, length, hash) == NULL)
        KILN__TABLE_ADD_HASHED(shard->answers, answer->key, length, (unsigned)hash, answer, added);
    pthread_mutex_unlock(&shard->lock);
    if (!added)
        kiln__free(answer);
}
