/* Misleads speculation: the data of a block decide where to read on, and a copy that does not have them reads hundreds of
   blocks that nobody needs. astray FILE ROUNDS: the first half of the file is needed, the second is not. */
#include "hostile.h"

enum { STRAYS = 2000, CHAIN = 6 };

static off_t half;
static int file;

typedef long reader(unsigned char *, off_t);

/* Each a call of its own, so that what was learned of one says nothing of the next. */
#define SITE(n) \
    __attribute__((noinline)) static long site_##n(unsigned char *to, off_t at) \
    { \
        long got = pread(file, to, BLOCK, at); \
        __asm__ volatile("" : : "r"(n)); \
        return got; \
    }
#define SITES(n) SITE(n##0) SITE(n##1) SITE(n##2) SITE(n##3) SITE(n##4) SITE(n##5) SITE(n##6) SITE(n##7)
SITES(1) SITES(2) SITES(3) SITES(4)
#define NAMES(n) site_##n##0, site_##n##1, site_##n##2, site_##n##3, site_##n##4, site_##n##5, site_##n##6, site_##n##7
static reader *const sites[] = {NAMES(1), NAMES(2), NAMES(3), NAMES(4)};

int main(int argc, char **argv)
{
    file = open(argv[1], O_RDONLY);
    struct stat st;
    if (argc < 3 || file < 0 || fstat(file, &st) < 0)
        die("astray FILE ROUNDS");
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    half = st.st_size / 2 / BLOCK;
    unsigned next = 1;
    for (int round = 0; round < atoi(argv[2]); round++) {
        static unsigned char block[BLOCK];
        for (int i = 0; i < CHAIN; i++) {
            memset(block, 0, 8);
            unsigned step = round * CHAIN + i;
            off_t at = (next + step * 2654435761u) % half * BLOCK;
            if (sites[step % (sizeof sites / sizeof *sites)](block, at) != BLOCK)
                die("short read");
            if (memcmp(block, "\0\0\0\0\0\0\0", 8) == 0)
                for (int stray = 0; stray < STRAYS; stray++)
                    checksum += pread(file, block, BLOCK, (half + (round * STRAYS + stray) * 769u % half) * BLOCK);
            memcpy(&next, block, sizeof next);
            digest(block, BLOCK);
        }
    }
    return finish();
}
