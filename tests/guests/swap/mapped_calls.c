/* Touches a cold mapped file at pages that only it knows, with a call after each whose arguments beyond those that it
   takes hold -1, as registers may. */
#include <sys/syscall.h>

#include "faulting.h"

int main(int argc, char **argv)
{
    (void)argc;
    int fd = open(argv[1], O_RDWR);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die(argv[1]);
    unsigned char *data = cold_map(fd, st.st_size, PROT_READ, MAP_PRIVATE);
    for (int i = 0; i < TOUCHES; i++) {
        digest(data + next_page(st.st_size), 64);
        if (syscall(SYS_lseek, fd, 0, SEEK_CUR, -1L, -1L, -1L) != 0)
            die("lseek");
    }
    return finish();
}
