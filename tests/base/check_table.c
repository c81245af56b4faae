#include "base/table.h"
#include "support/suites.h"

#include <stdbool.h>
#include <string.h>

enum { MANY = 1000 };

typedef struct item {
    int key, number;
    UT_hash_handle hh;
} item;

static item items[MANY];
static int allowed; /* allocations */

static int refuse_more(void)
{
    return allowed-- <= 0;
}

static bool add(item **table, int number, int key)
{
    bool added;
    items[number] = (item){ .key = key, .number = number };
    KILN__TABLE_ADD(*table, &items[number].key, sizeof(int), &items[number], added);
    return added;
}

static bool add_with(int allocations, item **table, int number)
{
    allowed = allocations;
    kiln__alloc_set_hook(refuse_more);
    bool added = add(table, number, number);
    kiln__alloc_set_hook(NULL);
    return added;
}

static item *find(const item *table, int key)
{
    item *found;
    HASH_FIND_INT(table, &key, found);
    return found;
}

START_TEST(test_table__walks_in_the_order_of_addition)
{
    item *table = NULL;
    int at = 0;
    for (int i = 0; i < MANY; i++)
        ck_assert(add(&table, i, MANY - i));
    for (const item *one = table; one != NULL; one = one->hh.next)
        ck_assert_int_eq(one->number, at++);
    ck_assert_int_eq(at, MANY);
    for (int i = 0; i < MANY; i++)
        ck_assert_ptr_eq(find(table, MANY - i), &items[i]);
    for (int i = 0; i < MANY; i++)
        HASH_DEL(table, &items[i]);
    ck_assert_ptr_null(table);
}
END_TEST

START_TEST(test_table__a_first_element_needs_memory)
{
    item *table = NULL;
    for (int allocations = 0; allocations < 2; allocations++) {
        ck_assert(!add_with(allocations, &table, 0));
        ck_assert_ptr_null(table);
    }
    ck_assert(add_with(2, &table, 0));
    ck_assert_ptr_eq(find(table, 0), &items[0]);
    HASH_DEL(table, &items[0]);
}
END_TEST

/* With memory again it grows. */
START_TEST(test_table__does_without_more_buckets)
{
    item *table = NULL;
    ck_assert(add(&table, 0, 0));
    unsigned buckets = table->hh.tbl->num_buckets;
    for (int i = 1; i < MANY / 2; i++)
        ck_assert(add_with(0, &table, i));
    ck_assert_uint_eq(table->hh.tbl->num_buckets, buckets);
    for (int i = MANY / 2; i < MANY; i++)
        ck_assert(add(&table, i, i));
    ck_assert_uint_gt(table->hh.tbl->num_buckets, buckets);
    ck_assert_uint_eq(HASH_COUNT(table), MANY);
    for (int i = 0; i < MANY; i++)
        ck_assert_ptr_eq(find(table, i), &items[i]);
    for (int i = 0; i < MANY; i++)
        HASH_DEL(table, &items[i]);
    ck_assert_ptr_null(table);
}
END_TEST

/* How many elements of a key there are. Each must be found once. */
static int count_of(const item *table, int key)
{
    bool seen[MANY] = { false };
    int count = 0;
    item *next;
    for (const item *one = find(table, key); one != NULL; one = next) {
        ck_assert_int_eq(one->key, key);
        ck_assert(!seen[one->number]);
        seen[one->number] = true;
        count++;
        KILN__TABLE_NEXT_OF_KEY(one, next);
    }
    return count;
}

START_TEST(test_table__a_key_may_have_several_elements)
{
    enum { EACH = 4 };
    item *table = NULL;
    for (int i = 0; i < MANY; i++)
        ck_assert(add(&table, i, i / EACH));
    for (int key = 0; key < MANY / EACH; key++) {
        ck_assert_int_eq(count_of(table, key), EACH);
        HASH_DEL(table, &items[EACH * key + key % EACH]);
        ck_assert_int_eq(count_of(table, key), EACH - 1);
    }
    ck_assert_int_eq(count_of(table, MANY), 0);
    HASH_CLEAR(hh, table);
}
END_TEST

Suite *kiln_test_base_table_suite(void)
{
    Suite *suite = suite_create("table");
    TCase *tests = tcase_create("table");
    tcase_add_test(tests, test_table__walks_in_the_order_of_addition);
    tcase_add_test(tests, test_table__a_first_element_needs_memory);
    tcase_add_test(tests, test_table__does_without_more_buckets);
    tcase_add_test(tests, test_table__a_key_may_have_several_elements);
    suite_add_tcase(suite, tests);
    return suite;
}
