/* Preloaded into a broker: faults of the journal's disk, and a wall clock that steps.

   A file that the test has mapped, too, says what is to happen (preloaded_faults.py): only calls on
   files whose names end in ".journal" are meddled with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct faults {
  int64_t clock_offset_ns;
  int64_t write_bytes_max; /* 0: no limit */
  int64_t sync_delay_ms;
  int64_t is_sync_hanging;
  int64_t sync_errno; /* 0: none */
  int64_t short_writes;
  int64_t syncs;
  int64_t failed_syncs;
};

#define BLOCK 4096

static volatile struct faults *faults;

__attribute__((constructor)) static void map_faults(void) {
  const char *path = getenv("FAULTS_FILE");
  int file = path ? open(path, O_RDWR) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) faults = mapped;
  close(file);
}

static int is_journal(int file) {
  char link[64], path[4096];
  if (!faults) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path);
  return length > 8 && !memcmp(path + length - 8, ".journal", 8);
}

ssize_t writev(int file, const struct iovec *buffers, int count) {
  static ssize_t (*real)(int, const struct iovec *, int);
  if (!real) real = dlsym(RTLD_NEXT, "writev");
  if (is_journal(file) && faults->write_bytes_max) {
    size_t most = faults->write_bytes_max;
    for (int number = 0; number < count; number++) {
      size_t length = buffers[number].iov_len;
      if (!length) continue;
      if (length > most || number + 1 < count) __sync_fetch_and_add(&faults->short_writes, 1);
      return write(file, buffers[number].iov_base, length < most ? length : most);
    }
  }
  return real(file, buffers, count);
}

ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset) {
  static ssize_t (*real)(int, const void *, size_t, off64_t);
  if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
  if (is_journal(file) && faults->write_bytes_max) {
    /* Past the page cache the kernel, too, writes whole blocks only. */
    size_t most = (faults->write_bytes_max / BLOCK + 1) * BLOCK;
    if (length > most) {
      __sync_fetch_and_add(&faults->short_writes, 1);
      length = most;
    }
  }
  return real(file, data, length, offset);
}

int fdatasync(int file) {
  static int (*real)(int);
  if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
  if (is_journal(file)) {
    __sync_fetch_and_add(&faults->syncs, 1);
    while (faults->is_sync_hanging) usleep(1000);
    if (faults->sync_delay_ms) usleep(faults->sync_delay_ms * 1000);
    if (faults->sync_errno) {
      __sync_fetch_and_add(&faults->failed_syncs, 1);
      errno = faults->sync_errno;
      return -1;
    }
  }
  return real(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = syscall(SYS_clock_gettime, clock, now);
  if (!result && clock == CLOCK_REALTIME && faults) {
    int64_t all = now->tv_sec * 1000000000LL + now->tv_nsec + faults->clock_offset_ns;
    now->tv_sec = all / 1000000000LL;
    now->tv_nsec = all % 1000000000LL;
  }
  return result;
}
