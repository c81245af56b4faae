#pragma once
#define SATURATED_MOST 200000
