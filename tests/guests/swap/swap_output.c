/* Writes what it gathers from swapped memory, much at a time: to a pipe, to a file by stdio, to a mapped file. */
#include "faulting.h"

int main(void)
{
    unsigned char *data = memory(MEMORY, MAP_PRIVATE);
    FILE *file = fopen("out/stdio", "w");
    int shared = open("out/mapped", O_RDWR | O_CREAT, 0644);
    if (!file || ftruncate(shared, ROUNDS * 64 * BLOCK) < 0)
        die("out");
    unsigned char *mapped = mmap(NULL, ROUNDS * 64 * BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    for (int round = 0; round < ROUNDS; round++) {
        touch_pages(data, MEMORY, TOUCHES);
        effect();
        for (int i = 0; i < 64; i++) {
            unsigned char *page = data + next_page(MEMORY);
            mapped[(round * 64 + i) * BLOCK] += page[0];
            fprintf(file, "%d %d %08x\n", i, page[0], checksum);
            digest(page, BLOCK);
        }
        fflush(file);
        /* Larger than a pipe: the kernel reads swapped pages while the other end empties it. */
        struct iovec parts[16];
        for (int i = 0; i < 16; i++)
            parts[i] = (struct iovec){data + next_page(MEMORY - 16 * BLOCK), 6 * BLOCK + i};
        long length = 16 * 6 * BLOCK + 120, done = writev(1, parts, 16);
        dprintf(1, "\nwritten %d\n", done == length);
    }
    msync(mapped, ROUNDS * 64 * BLOCK, MS_SYNC);
    fclose(file);
    return finish();
}
