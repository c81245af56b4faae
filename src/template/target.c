#include "template/target.h"
#include <string.h>

static bool parse_sm(const char *text, size_t length, kiln__target *out)
{
    size_t i = 3;
    if (length < 5 || memcmp(text, "sm_", 3) != 0 || text[3] == '0')
        return false;
    for (; i < length && text[i] >= '0' && text[i] <= '9' && i < 6; i++)
        out->sm = out->sm * 10 + (text[i] - '0');
    if (i < 5)
        return false;
    if (i < length && (text[i] == 'a' || text[i] == 'f'))
        out->suffix = text[i++];
    return i == length;
}

bool kiln__target_parse(const char *text, size_t length, kiln__target *out)
{
    kiln__target target = { 0, '\0', "" };
    bool cpu = length == 3 && memcmp(text, "cpu", 3) == 0;
    if (!cpu && !parse_sm(text, length, &target))
        return false;
    memcpy(target.name, text, length);
    *out = target;
    return true;
}

bool kiln__target_is_cpu(const kiln__target *target)
{
    return target->sm == 0;
}
