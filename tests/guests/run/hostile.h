/* What the hostile guests share: they read cold data in an order that only the program knows, branch on what
 * they read, and then do something that must be seen from outside exactly once and not before its time. */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How often a guest repeats its effect, how many blocks it reads before each, and how large they are. */
enum { ROUNDS = 4, READS = 40, BLOCK = 4096 };

static unsigned long long stamps[256];
static unsigned stamp_count;
static unsigned checksum;
static unsigned block_next;

__attribute__((unused)) static void die(const char *what)
{
    dprintf(2, "%s: %s\n", what, strerror(errno));
    exit(99);
}

__attribute__((unused)) static unsigned long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* What a program does with data: all of it matters to the result, each byte decides a branch. */
__attribute__((unused)) static void digest(const unsigned char *bytes, long count)
{
    for (long i = 0; i < count; i += 64) {
        if (bytes[i] & 1)
            checksum = checksum * 31 + bytes[i];
        else if (bytes[i] > 100)
            checksum ^= checksum << 3;
        else
            checksum += i;
    }
}

/* Reads the next READS blocks of an open file, scattered, by pread and by lseek and read in turn. */
__attribute__((unused)) static void cold_reads_fd(int fd)
{
    unsigned char bytes[BLOCK];
    struct stat st;
    if (fstat(fd, &st) < 0)
        die("fstat");
    unsigned blocks = st.st_size / BLOCK;
    for (int i = 0; i < READS; i++) {
        off_t at = (off_t)(block_next++ * 769u % blocks) * BLOCK;
        long got;
        if (i & 1) {
            got = pread(fd, bytes, BLOCK, at);
        } else {
            lseek(fd, at, SEEK_SET);
            got = read(fd, bytes, BLOCK);
        }
        if (got != BLOCK)
            die("short read");
        digest(bytes, got);
    }
}

/* The same, of a file that is opened for it. */
__attribute__((unused)) static void cold_reads(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die(path);
    cold_reads_fd(fd);
    close(fd);
}

/* An effect is about to happen; nothing of it may be visible before this moment. */
__attribute__((unused)) static void effect(void)
{
    stamps[stamp_count++ % 256] = now_ns();
}

/* One line of output about what a call returned. */
__attribute__((unused)) static void say(const char *what, long result)
{
    int error = errno;
    dprintf(1, "%s %ld %s\n", what, result, result < 0 ? strerror(error) : "");
}

/* Tells the stamps, which the test takes out, and what all the reading came to. */
__attribute__((unused)) static int finish(void)
{
    for (unsigned i = 0; i < stamp_count && i < 256; i++)
        dprintf(1, "stamp %llu\n", stamps[i]);
    dprintf(1, "checksum %08x\n", checksum);
    return 0;
}
