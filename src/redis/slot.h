/* slot: which of the 16384 parts of a Redis Cluster a key belongs to. */
#ifndef STAMPEDE_REDIS_SLOT_H
#define STAMPEDE_REDIS_SLOT_H

#include "base/slice.h"

#include <stdint.h>

#define REDIS_SLOTS 16384

/* CRC-16 as Redis has it: polynomial 0x1021, from 0, nothing reflected ("XMODEM"). */
uint16_t redis_crc16(struct slice bytes);
/* By what is between the first { and the first } after it, if there is something; else by the whole key. */
uint16_t redis_slot(struct slice key);

#endif
