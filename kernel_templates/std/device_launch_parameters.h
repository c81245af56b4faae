/* threadIdx and the like are the compiler's own. */
#ifndef KILN_STD_DEVICE_LAUNCH_PARAMETERS_H
#define KILN_STD_DEVICE_LAUNCH_PARAMETERS_H


#endif
