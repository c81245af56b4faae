/* Frames: their form, what is refused, and sending them over a socket. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "jit/worker/frame.h"
#include "os/cpu.h"
#include "support/suites.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TYPE = 0x1234, LIMIT = 1 << 20, PATIENCE_MS = 60000, SHORT_MS = 30 };

static int ends[2];

static void set_up(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

static void tear_down(void)
{
    close(ends[0]);
    close(ends[1]);
}

static uint64_t in_ms(uint64_t ms)
{
    return kiln__cpu_now_ns() + ms * 1000000;
}

static kiln__text sample(void)
{
    kiln__text frame = { 0 };
    kiln__frame_begin(&frame, TYPE);
    kiln__frame_put_u32(&frame, 1, 0xA1B2C3D4);
    kiln__frame_put_text(&frame, 2, "hello");
    kiln__frame_put(&frame, 3, NULL, 0);
    kiln__frame_put_u64(&frame, 0xFFFF, UINT64_MAX - 1);
    ck_assert(!frame.failed);
    return frame;
}

static void check_sample(const kiln__frame *frame)
{
    uint32_t small;
    uint64_t large;
    ck_assert_uint_eq(frame->type, TYPE);
    ck_assert_uint_eq(frame->count, 4);
    ck_assert(kiln__frame_get_u32(frame, 1, &small));
    ck_assert_uint_eq(small, 0xA1B2C3D4);
    ck_assert_str_eq(kiln__frame_get_text(frame, 2), "hello");
    ck_assert_uint_eq(kiln__frame_find(frame, 3)->length, 0);
    ck_assert(kiln__frame_get_u64(frame, 0xFFFF, &large));
    ck_assert_uint_eq(large, UINT64_MAX - 1);
}

/* ---- The form */

START_TEST(test_frame__has_one_form)
{
    static const uint8_t expected[] = { 'K', 'L', 'N', 'F', 1, 0, 0x34, 0x12, 10,   0,    0,
                                        0,   1,   0,   4,   0, 0, 0,    0xD4, 0xC3, 0xB2, 0xA1 };
    kiln__text frame = { 0 };
    kiln__frame_begin(&frame, TYPE);
    kiln__frame_put_u32(&frame, 1, 0xA1B2C3D4);
    ck_assert_uint_eq(frame.length, sizeof(expected));
    ck_assert_mem_eq(frame.data, expected, sizeof(expected));
    kiln__text_fini(&frame);
}
END_TEST

START_TEST(test_frame__comes_back)
{
    kiln__text text = sample();
    kiln__frame frame;
    ck_assert_int_eq(kiln__frame_decode(&frame, text.data, text.length), KILN__FRAME_GOOD);
    check_sample(&frame);
    kiln__text_fini(&text);
    kiln__frame_begin(&text, 7);
    ck_assert_int_eq(kiln__frame_decode(&frame, text.data, text.length), KILN__FRAME_GOOD);
    ck_assert_uint_eq(frame.count, 0);
    ck_assert_uint_eq(frame.type, 7);
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_frame__every_other_length_is_refused)
{
    kiln__text text = sample();
    kiln__frame frame;
    for (size_t length = 0; length < text.length; length++) {
        char *copy = malloc(length + 1); /* exact, for AddressSanitizer */
        memcpy(copy, text.data, length);
        ck_assert_int_eq(kiln__frame_decode(&frame, copy, length), KILN__FRAME_LENGTH);
        ck_assert_uint_eq(frame.count, 0);
        free(copy);
    }
    kiln__text_append_bytes(&text, "x", 1);
    ck_assert_int_eq(kiln__frame_decode(&frame, text.data, text.length), KILN__FRAME_LENGTH);
    kiln__text_fini(&text);
}
END_TEST

static kiln__frame_fault fault_with(size_t at, uint8_t value)
{
    kiln__text text = sample();
    kiln__frame frame;
    text.data[at] = (char)value;
    kiln__frame_fault fault = kiln__frame_decode(&frame, text.data, text.length);
    ck_assert((fault == KILN__FRAME_GOOD) == (kiln__frame_fault_text(fault)[0] == '\0'));
    kiln__text_fini(&text);
    return fault;
}

START_TEST(test_frame__damage_is_refused)
{
    ck_assert_int_eq(fault_with(0, 'k'), KILN__FRAME_MAGIC);
    ck_assert_int_eq(fault_with(4, 2), KILN__FRAME_OTHER);
    ck_assert_int_eq(fault_with(8, 1), KILN__FRAME_LENGTH);
    ck_assert_int_eq(fault_with(11, 1), KILN__FRAME_LENGTH);
    ck_assert_int_eq(fault_with(14, 200), KILN__FRAME_LENGTH); /* the first field's length */
    ck_assert_int_eq(fault_with(17, 255), KILN__FRAME_LENGTH);
    ck_assert_int_eq(fault_with(12, 2), KILN__FRAME_DISORDER); /* the second field's tag too */
    ck_assert_int_eq(fault_with(12, 3), KILN__FRAME_DISORDER);
    ck_assert_int_eq(fault_with(6, 0), KILN__FRAME_GOOD);
}
END_TEST

START_TEST(test_frame__too_many_fields_are_refused)
{
    kiln__text text = { 0 };
    kiln__frame frame;
    kiln__frame_begin(&text, TYPE);
    for (uint16_t i = 0; i < KILN__FRAME_FIELDS_MAX; i++)
        kiln__frame_put(&text, i, "x", 1);
    ck_assert_int_eq(kiln__frame_decode(&frame, text.data, text.length), KILN__FRAME_GOOD);
    kiln__frame_put(&text, KILN__FRAME_FIELDS_MAX, "x", 1);
    ck_assert_int_eq(kiln__frame_decode(&frame, text.data, text.length), KILN__FRAME_DISORDER);
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_frame__fields_of_another_kind_are_not_taken)
{
    kiln__text text = { 0 };
    kiln__frame frame;
    uint32_t small;
    uint64_t large;
    kiln__frame_begin(&text, TYPE);
    kiln__frame_put(&text, 1, "abc", 3);
    kiln__frame_put(&text, 2, "a\0b", 4);
    kiln__frame_put(&text, 3, "", 0);
    kiln__frame_put_text(&text, 4, "");
    ck_assert_int_eq(kiln__frame_decode(&frame, text.data, text.length), KILN__FRAME_GOOD);
    for (uint16_t tag = 0; tag < 6; tag++)
        ck_assert((kiln__frame_get_text(&frame, tag) != NULL) == (tag == 4));
    ck_assert(!kiln__frame_get_u32(&frame, 1, &small));
    ck_assert(kiln__frame_get_u32(&frame, 2, &small));
    ck_assert(!kiln__frame_get_u64(&frame, 2, &large));
    ck_assert(!kiln__frame_get_u64(&frame, 9, &large));
    kiln__text_fini(&text);
}
END_TEST

/* ---- The channel */

START_TEST(test_frame__goes_over_a_socket)
{
    kiln__text text = sample();
    kiln__message message;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(kiln__channel_send(ends[0], &text, in_ms(PATIENCE_MS)), KILN__CHANNEL_DONE);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(kiln__channel_receive(ends[1], LIMIT, in_ms(PATIENCE_MS), &message), KILN__CHANNEL_DONE);
        check_sample(&message.frame);
        kiln__message_fini(&message);
    }
    kiln__text_fini(&text);
}
END_TEST

static void *send_large(void *data)
{
    ck_assert_int_eq(kiln__channel_send(ends[0], data, KILN__CHANNEL_FOREVER), KILN__CHANNEL_DONE);
    return NULL;
}

START_TEST(test_frame__larger_than_the_socket_takes)
{
    enum { SIZE = 40 << 20 };
    char *bytes = malloc(SIZE);
    pthread_t thread;
    kiln__message message;
    kiln__text text = { 0 };
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 7 + i / 4096);
    kiln__frame_begin(&text, TYPE);
    kiln__frame_put(&text, 5, bytes, SIZE);
    ck_assert_int_eq(pthread_create(&thread, NULL, send_large, &text), 0);
    ck_assert_int_eq(kiln__channel_receive(ends[1], SIZE + 6, in_ms(PATIENCE_MS), &message), KILN__CHANNEL_DONE);
    ck_assert(memcmp(kiln__frame_find(&message.frame, 5)->data, bytes, SIZE) == 0);
    pthread_join(thread, NULL);
    kiln__message_fini(&message);
    kiln__text_fini(&text);
    free(bytes);
}
END_TEST

static size_t allocations;

static int count_allocation(void)
{
    allocations++;
    return 0;
}

START_TEST(test_frame__limit_holds_before_there_is_memory_for_it)
{
    kiln__text text = sample();
    kiln__message message;
    uint32_t body = (uint32_t)text.length - KILN__FRAME_HEADER_SIZE;
    ck_assert_int_eq(kiln__channel_send(ends[0], &text, in_ms(PATIENCE_MS)), KILN__CHANNEL_DONE);
    ck_assert_int_eq(kiln__channel_receive(ends[1], body, in_ms(PATIENCE_MS), &message), KILN__CHANNEL_DONE);
    kiln__message_fini(&message);
    ck_assert_int_eq(kiln__channel_send(ends[0], &text, in_ms(PATIENCE_MS)), KILN__CHANNEL_DONE);
    kiln__alloc_set_hook(count_allocation);
    ck_assert_int_eq(kiln__channel_receive(ends[1], body - 1, in_ms(PATIENCE_MS), &message), KILN__CHANNEL_MALFORMED);
    kiln__alloc_set_hook(NULL);
    ck_assert_int_eq(message.fault, KILN__FRAME_LONG);
    ck_assert_uint_eq(allocations, 0);
    kiln__message_fini(&message);
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_frame__what_is_no_frame_is_told)
{
    kiln__text text = sample();
    kiln__message message;
    ck_assert_int_eq(write(ends[0], "HTTP/1.1 400 Bad Request\r\n", 26), 26);
    ck_assert_int_eq(kiln__channel_receive(ends[1], LIMIT, in_ms(PATIENCE_MS), &message), KILN__CHANNEL_MALFORMED);
    ck_assert_int_eq(message.fault, KILN__FRAME_MAGIC);
    kiln__message_fini(&message);
    tear_down();
    set_up();
    text.data[12] = 9; /* a tag out of order */
    ck_assert_int_eq(kiln__channel_send(ends[0], &text, in_ms(PATIENCE_MS)), KILN__CHANNEL_DONE);
    ck_assert_int_eq(kiln__channel_receive(ends[1], LIMIT, in_ms(PATIENCE_MS), &message), KILN__CHANNEL_MALFORMED);
    ck_assert_int_eq(message.fault, KILN__FRAME_DISORDER);
    ck_assert_uint_eq(message.frame.count, 0);
    kiln__message_fini(&message);
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_frame__end_of_the_stream_at_every_byte)
{
    kiln__text text = sample();
    for (size_t length = 0; length < text.length; length++) {
        kiln__message message;
        tear_down();
        set_up();
        ck_assert_int_eq(send(ends[0], text.data, length, 0), (int)length);
        shutdown(ends[0], SHUT_WR);
        ck_assert_int_eq(kiln__channel_receive(ends[1], LIMIT, in_ms(PATIENCE_MS), &message), KILN__CHANNEL_CLOSED);
        kiln__message_fini(&message);
    }
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_frame__deadline_holds_at_every_byte)
{
    kiln__text text = sample();
    for (size_t length = 0; length < text.length; length += 9) {
        kiln__message message;
        tear_down();
        set_up();
        ck_assert_int_eq(send(ends[0], text.data, length, 0), (int)length);
        uint64_t start = kiln__cpu_now_ns();
        ck_assert_int_eq(kiln__channel_receive(ends[1], LIMIT, in_ms(SHORT_MS), &message), KILN__CHANNEL_LATE);
        ck_assert_uint_ge(kiln__cpu_now_ns() - start, (uint64_t)SHORT_MS * 1000000);
        kiln__message_fini(&message);
    }
    kiln__text_fini(&text);
}
END_TEST

START_TEST(test_frame__sending_to_nobody)
{
    kiln__text text = { 0 };
    char *bytes = calloc(1, 8 << 20);
    kiln__frame_begin(&text, TYPE);
    kiln__frame_put(&text, 1, bytes, 8 << 20);
    /* Nobody reads. */
    ck_assert_int_eq(kiln__channel_send(ends[0], &text, in_ms(SHORT_MS)), KILN__CHANNEL_LATE);
    /* Nobody is there: no SIGPIPE, which would end the test. */
    close(ends[1]);
    ck_assert_int_eq(kiln__channel_send(ends[0], &text, in_ms(PATIENCE_MS)), KILN__CHANNEL_CLOSED);
    ends[1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    kiln__text_fini(&text);
    text.failed = true;
    ck_assert_int_eq(kiln__channel_send(ends[0], &text, in_ms(PATIENCE_MS)), KILN__CHANNEL_NO_MEMORY);
    free(bytes);
}
END_TEST

static pthread_t receiver;

static void on_signal(int number)
{
    (void)number;
}

static void *disturb(void *data)
{
    kiln__text *text = data;
    for (size_t i = 0; i < text->length; i++) {
        pthread_kill(receiver, SIGUSR1);
        usleep(500);
        ck_assert_int_eq(send(ends[0], text->data + i, 1, 0), 1);
    }
    return NULL;
}

START_TEST(test_frame__signals_and_single_bytes)
{
    struct sigaction action = { .sa_handler = on_signal };
    pthread_t thread;
    kiln__message message;
    kiln__text text = sample();
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    receiver = pthread_self();
    ck_assert_int_eq(pthread_create(&thread, NULL, disturb, &text), 0);
    ck_assert_int_eq(kiln__channel_receive(ends[1], LIMIT, KILN__CHANNEL_FOREVER, &message), KILN__CHANNEL_DONE);
    check_sample(&message.frame);
    pthread_join(thread, NULL);
    kiln__message_fini(&message);
    kiln__text_fini(&text);
}
END_TEST

static int fail_allocation(void)
{
    return 1;
}

START_TEST(test_frame__without_memory)
{
    kiln__text text = sample(), other = { 0 };
    kiln__message message;
    ck_assert_int_eq(kiln__channel_send(ends[0], &text, in_ms(PATIENCE_MS)), KILN__CHANNEL_DONE);
    kiln__alloc_set_hook(fail_allocation);
    kiln__frame_begin(&other, TYPE);
    kiln__frame_put_u32(&other, 1, 2);
    ck_assert_int_eq(kiln__channel_receive(ends[1], LIMIT, in_ms(PATIENCE_MS), &message), KILN__CHANNEL_NO_MEMORY);
    kiln__alloc_set_hook(NULL);
    ck_assert(other.failed);
    kiln__message_fini(&message);
    kiln__text_fini(&text);
}
END_TEST

Suite *kiln_test_jit_frame_suite(void)
{
    Suite *suite = suite_create("frame");
    TCase *form = tcase_create("form"), *channel = tcase_create("channel");
    tcase_add_test(form, test_frame__has_one_form);
    tcase_add_test(form, test_frame__comes_back);
    tcase_add_test(form, test_frame__every_other_length_is_refused);
    tcase_add_test(form, test_frame__damage_is_refused);
    tcase_add_test(form, test_frame__too_many_fields_are_refused);
    tcase_add_test(form, test_frame__fields_of_another_kind_are_not_taken);
    suite_add_tcase(suite, form);
    tcase_add_checked_fixture(channel, set_up, tear_down);
    tcase_add_test(channel, test_frame__goes_over_a_socket);
    tcase_add_test(channel, test_frame__larger_than_the_socket_takes);
    tcase_add_test(channel, test_frame__limit_holds_before_there_is_memory_for_it);
    tcase_add_test(channel, test_frame__what_is_no_frame_is_told);
    tcase_add_test(channel, test_frame__end_of_the_stream_at_every_byte);
    tcase_add_test(channel, test_frame__deadline_holds_at_every_byte);
    tcase_add_test(channel, test_frame__sending_to_nobody);
    tcase_add_test(channel, test_frame__signals_and_single_bytes);
    tcase_add_test(channel, test_frame__without_memory);
    suite_add_tcase(suite, channel);
    return suite;
}
