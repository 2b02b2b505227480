/* What the guests share that wait for their own memory: more of it than a limit leaves them, mapped files that are not in
 * memory, and touches in an order that only the program knows, with branches on what is found there. */
#pragma once
#include "../run/hostile.h"

/* Bytes of a guest's memory, and touches before each effect: so many that the waits take some tenths of a second. */
enum { MEMORY = 48 << 20, TOUCHES = 1200 };

static uint64_t touch_state = 7;

__attribute__((unused)) static size_t next_page(size_t size)
{
    touch_state = touch_state * 6364136223846793005u + 1442695040888963407u;
    return (touch_state >> 33) % (size / BLOCK) * BLOCK;
}

/* What a page holds at first: never 0. */
__attribute__((unused)) static unsigned char value_of(size_t page)
{
    return page / BLOCK * 37 % 251 + 1;
}

/* A value for every page, written in order: where there is a limit, the first are swapped out by then. */
__attribute__((unused)) static void fill_pages(unsigned char *data, size_t size)
{
    for (size_t page = 0; page < size; page += BLOCK)
        data[page] = value_of(page);
}

__attribute__((unused)) static unsigned char *memory(size_t size, int flags)
{
    unsigned char *data = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        die("mmap");
    fill_pages(data, size);
    return data;
}

/* Reads one value of each of `count` pages. */
__attribute__((unused)) static void touch_pages(const unsigned char *data, size_t size, int count)
{
    for (int i = 0; i < count; i++)
        digest(data + next_page(size), 64);
}

/* Changes one value of each of `count` pages, by all that was read before. */
__attribute__((unused)) static void change_pages(unsigned char *data, size_t size, int count)
{
    for (int i = 0; i < count; i++) {
        size_t page = next_page(size);
        digest(data + page, 64);
        data[page] = (data[page] ^ checksum) | 1;
    }
}

/* Takes a file out of the page cache and maps it. */
__attribute__((unused)) static unsigned char *cold_map(int fd, size_t size, int protection, int flags)
{
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    unsigned char *data = mmap(NULL, size, protection, flags, fd, 0);
    if (data == MAP_FAILED)
        die("mmap");
    madvise(data, size, MADV_RANDOM);
    return data;
}

/* Appends one line to a file, by way of a descriptor of its own. */
__attribute__((unused)) static void append_line(const char *path, int round)
{
    char line[64];
    int length = snprintf(line, sizeof line, "round %d %08x\n", round, checksum);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || write(fd, line, length) != length)
        die(path);
    close(fd);
}
