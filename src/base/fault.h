/* fault: the world failed. Logged once, where errno is fresh; never shown to a buyer as a verdict. */
#ifndef STAMPEDE_BASE_FAULT_H
#define STAMPEDE_BASE_FAULT_H

enum fault {
    FAULT_NONE = 0,
    FAULT_DISK,    /* a read, write, sync or rename failed */
    FAULT_SPACE,   /* the disk or a fixed table is full */
    FAULT_DAMAGE,  /* stored data is not what was written */
    FAULT_IN_USE,  /* someone else holds the folder or the port */
    FAULT_CONFIG,  /* what the operator gave cannot be used */
    FAULT_LEDGER,  /* the database failed */
    FAULT_UNSURE,  /* the database was told to commit, and nobody heard whether it did */
    FAULT_MEMORY,  /* the system has no memory left */
    FAULT_TIMEOUT, /* bounded waiting came to its bound */
    FAULT_FENCED,  /* someone else has the job now: what we were about to write is theirs to write */
};

#define MUST_USE __attribute__((warn_unused_result))

#endif
