#include "watch/watchrows.h"

#include <stdlib.h>

#include "text/format.h"

const char watchtemplate_columns[] = "spec|>registers|>ms old|>ms new|>change|95%|>GB/s|>of copy|verified";

static char *percent(double ratio)
{
    char number[FORMAT_ROOM];
    return need_format("%s%s%%", ratio >= 1 ? "+" : "", format_fixed(number, (ratio - 1) * 100, 1));
}

static void format_change(char **change, char **interval, const watched *one)
{
    *change = *interval = NULL;
    if (!(one->old_ms > 0))
        return;
    bool noise = one->change.low <= 1 && one->change.high >= 1;
    char *low = percent(one->change.low), *high = percent(one->change.high);
    *change = noise ? need_copy("within noise") : percent(one->change.median);
    *interval = need_format("%s..%s", low, high);
    free(low);
    free(high);
}

static void add_table_row(struct table *table, const watched *one)
{
    char ms[FORMAT_ROOM] = "-", old[FORMAT_ROOM] = "-", rate[FORMAT_ROOM] = "-", copy[FORMAT_ROOM] = "-";
    char *change = NULL, *interval = NULL;
    char *registers = !one->spec || one->registers < 0 ? need_copy("-")
                      : one->fresh && one->old_registers >= 0 && one->old_registers != one->registers
                          ? need_format("%d -> %d", one->old_registers, one->registers)
                          : need_format("%d", one->registers);
    if (one->spec && one->ms > 0) {
        /* What did not get a successor is the old one. */
        format_ms_plain(one->fresh ? ms : old, one->ms);
        format_fixed(rate, one->gbps, 1);
        format_fixed(copy, one->copy_ratio, 3);
    }
    if (one->fresh && one->old_ms > 0)
        format_ms_plain(old, one->old_ms);
    if (one->fresh && one->other_arguments)
        change = need_copy("other arguments");
    else if (one->fresh)
        format_change(&change, &interval, one);
    table_row(table,
              (const char *const[]){ one->asked, registers, old, ms, change ? change : "-", interval ? interval : "-",
                                     rate, copy, one->fresh ? one->verified : "failed" });
    free(registers);
    free(change);
    free(interval);
}

static void put_time(json_t *row, const char *key, bool known, double value)
{
    if (known)
        json_put_real(row, key, value);
    else
        json_put_null(row, key);
}

static json_t *row_json(const watched *one)
{
    json_t *row = json_new();
    bool timed = one->spec && one->ms > 0, compared = one->fresh && one->old_ms > 0 && !one->other_arguments;
    bool former = one->fresh ? one->old_ms > 0 : timed;
    json_put_text(row, "asked", one->asked);
    if (one->spec)
        json_put_text(row, "spec", one->spec);
    else
        json_put_null(row, "spec");
    json_put_known(row, "registers", one->spec ? one->registers : -1);
    json_put_known(row, "registers_old", one->fresh ? one->old_registers : -1);
    put_time(row, "ms", timed && one->fresh, one->ms);
    put_time(row, "ms_old", former, one->fresh ? one->old_ms : one->ms);
    put_time(row, "change", compared, one->change.median - 1);
    put_time(row, "change_low", compared, one->change.low - 1);
    put_time(row, "change_high", compared, one->change.high - 1);
    put_time(row, "gbps", timed, one->gbps);
    put_time(row, "of_copy", timed, one->copy_ratio);
    json_put_bool(row, "other_arguments", one->fresh && one->other_arguments);
    json_put_text(row, "verified", one->fresh ? one->verified : "failed");
    return row;
}

void watchrows_add(watch_round *round, const watched *one)
{
    add_table_row(round->table, one);
    json_add(round->rows, row_json(one));
}
