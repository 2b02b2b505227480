/* Looks for a string in files, each mapped as a whole: mapscan STRING FOLDER. Prints how many files have it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int has(const char *path, const char *string)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC), found = 0;
    if (file < 0)
        return 0;
    if (fstat(file, &status) == 0 && status.st_size > 0) {
        char *text = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (text != MAP_FAILED) {
            found = memmem(text, status.st_size, string, strlen(string)) != NULL;
            munmap(text, status.st_size);
        }
    }
    close(file);
    return found;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    char *roots[] = {argv[2], NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    long files = 0, matches = 0;
    for (FTSENT *entry; tree && (entry = fts_read(tree));)
        if (entry->fts_info == FTS_F) {
            files++;
            matches += has(entry->fts_path, argv[1]);
        }
    printf("%ld of %ld\n", matches, files);
    return 0;
}
