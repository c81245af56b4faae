// Kernels that launch kernels: quicksort in which each part is sorted by a launch from the GPU.
__device__ int launches;

__device__ void insertion_sort(int *data, int count)
{
    for (int i = 1; i < count; i++) {
        int value = data[i], at = i;
        for (; at > 0 && data[at - 1] > value; at--)
            data[at] = data[at - 1];
        data[at] = value;
    }
}

extern "C" __global__ void quicksort(int *data, int count, int depth)
{
    atomicAdd(&launches, 1);
    if (count <= 16 || depth >= 20) {
        insertion_sort(data, count);
        return;
    }
    int pivot = data[count / 2], left = 0, right = count - 1;
    while (left <= right) {
        while (data[left] < pivot)
            left++;
        while (data[right] > pivot)
            right--;
        if (left <= right) {
            int swapped = data[left];
            data[left++] = data[right];
            data[right--] = swapped;
        }
    }
    if (right > 0)
        quicksort<<<1, 1>>>(data, right + 1, depth + 1);
    if (left < count - 1)
        quicksort<<<1, 1>>>(data + left, count - left, depth + 1);
}
