/* disk: the few calls durability rests on. The simulation links its own implementation of this header in place of
 * disk.c. Every failure has been logged here, where errno is fresh. A full disk is FAULT_SPACE, all else FAULT_DISK. */
#ifndef STAMPEDE_BASE_DISK_H
#define STAMPEDE_BASE_DISK_H

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault disk_folder_make(const char *path) MUST_USE;     /* 0700; fine if it is there */
enum fault disk_create(const char *path, int *fd) MUST_USE; /* new, or emptied; read and write, 0600 */
enum fault disk_open(const char *path, bool write, int *fd) MUST_USE;
void disk_close(int fd);
enum fault disk_write_at(int fd, const void *data, size_t len, uint64_t offset) MUST_USE; /* all of it */
/* *got < len only at the end of the file. */
enum fault disk_read_at(int fd, void *data, size_t len, uint64_t offset, size_t *got) MUST_USE;
enum fault disk_size(int fd, uint64_t *size) MUST_USE;
enum fault disk_sync(int fd) MUST_USE;     /* fdatasync */
enum fault disk_sync_all(int fd) MUST_USE; /* fsync: data and length */
enum fault disk_sync_folder(const char *path) MUST_USE;
enum fault disk_rename(const char *from, const char *to) MUST_USE;
enum fault disk_remove(const char *path) MUST_USE;
enum fault disk_space(const char *path, uint64_t *bytes_free) MUST_USE;
/* Names in a folder, in no order. */
enum fault disk_each(const char *path, void (*visit)(void *arg, const char *name), void *arg) MUST_USE;

/* One process per data folder: flock on PATH/lock, which holds the pid. FAULT_IN_USE fills *pid with the holder's, or with
 * 0 if it cannot be read. The lock ends with the process, or when *fd is closed. */
enum fault disk_lock_folder(const char *path, int *fd, long *pid) MUST_USE;

#endif
