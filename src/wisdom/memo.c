#include "wisdom/memo.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/digest.h"
#include <string.h>

struct kiln__wisdom_answer {
    kiln__wisdom_answer *next;
    kiln__wisdom_choice choice;
    size_t length;
    uint8_t key[];
};

void kiln__wisdom_memo_init(kiln__wisdom_memo *memo)
{
    memset(memo, 0, sizeof(*memo));
    for (int i = 0; i < KILN__WISDOM_SHARDS; i++)
        pthread_mutex_init(&memo->shards[i].lock, NULL);
}

static void forget(kiln__wisdom_memo *memo, unsigned shard)
{
    for (kiln__wisdom_answer *answer = memo->shards[shard].first, *next = NULL; answer != NULL; answer = next) {
        next = answer->next;
        kiln__free(answer);
    }
    memo->shards[shard].first = NULL;
    memo->shards[shard].count = 0;
}

void kiln__wisdom_memo_fini(kiln__wisdom_memo *memo)
{
    for (unsigned i = 0; i < KILN__WISDOM_SHARDS; i++) {
        forget(memo, i);
        pthread_mutex_destroy(&memo->shards[i].lock);
    }
}

static unsigned shard_of(const void *key, size_t length)
{
    uint8_t sum[KILN__CHECKSUM_SIZE];
    kiln__checksum(sum, key, length);
    return kiln__read_u32(sum) % KILN__WISDOM_SHARDS;
}

bool kiln__wisdom_memo_find(kiln__wisdom_memo *memo, uint64_t generation, const void *key, size_t length,
                            kiln__wisdom_choice *out)
{
    unsigned shard = shard_of(key, length);
    const kiln__wisdom_answer *answer = NULL;
    pthread_mutex_lock(&memo->shards[shard].lock);
    if (memo->shards[shard].generation < generation) {
        forget(memo, shard);
        memo->shards[shard].generation = generation;
    }
    if (memo->shards[shard].generation == generation)
        answer = memo->shards[shard].first;
    while (answer != NULL && (answer->length != length || memcmp(answer->key, key, length) != 0))
        answer = answer->next;
    if (answer != NULL)
        *out = answer->choice;
    pthread_mutex_unlock(&memo->shards[shard].lock);
    return answer != NULL;
}

/* Two threads may add the same: both answers are equal. */
void kiln__wisdom_memo_add(kiln__wisdom_memo *memo, uint64_t generation, const void *key, size_t length,
                           const kiln__wisdom_choice *choice)
{
    unsigned shard = shard_of(key, length);
    kiln__wisdom_answer *answer = kiln__alloc(sizeof(*answer) + length);
    if (answer == NULL)
        return;
    answer->choice = *choice;
    answer->length = length;
    memcpy(answer->key, key, length);
    pthread_mutex_lock(&memo->shards[shard].lock);
    if (memo->shards[shard].count == KILN__WISDOM_SHARD_MAX)
        forget(memo, shard);
    bool current = memo->shards[shard].generation == generation;
    if (current) {
        answer->next = memo->shards[shard].first;
        memo->shards[shard].first = answer;
        memo->shards[shard].count++;
    }
    pthread_mutex_unlock(&memo->shards[shard].lock);
    if (!current)
        kiln__free(answer);
}
