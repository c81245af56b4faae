/* NVRTC has threadIdx and the like built in. */
#ifndef KILN_STD_DEVICE_LAUNCH_PARAMETERS_H
#define KILN_STD_DEVICE_LAUNCH_PARAMETERS_H

#endif
