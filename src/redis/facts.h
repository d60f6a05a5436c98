/* facts: what a server says of itself (INFO), and whether it is fit for us. Inside this room only. */
#ifndef STAMPEDE_REDIS_FACTS_H
#define STAMPEDE_REDIS_FACTS_H

#include "redis/redis.h"

struct facts {
    char run_id[REDIS_RUN_ID_BYTES + 1];
    char replid[REDIS_REPLID_BYTES + 1]; /* empty: it has none, being a Sentinel */
    char lineage[REDIS_LINEAGE_BYTES_MAX + 1];
    char version[REDIS_VERSION_BYTES_MAX + 1];
    char mode[16]; /* standalone, cluster, sentinel */
    char policy[32];
    char master_host[REDIS_HOST_BYTES_MAX + 1];
    char master_port[8];
    bool is_master, loading;
};

enum facts_verdict {
    FACTS_FIT,
    FACTS_NOT_YET, /* it may become so by itself */
    FACTS_UNFIT,   /* somebody must do something */
};

/* False: it is not the answer to INFO. */
bool facts_read(struct facts *out, struct slice info);

/* What a server that was known says of itself later (INFO replication). */
enum facts_change {
    FACTS_SAME,
    FACTS_OTHER_ROLE,
    FACTS_OTHER_LINEAGE, /* a master still, or again */
};
enum facts_change facts_changed(const struct facts *facts, struct slice info);

/* A server at an address, wanted as a Sentinel or as one of the place's kind. Sentence: why not, whole, beginning with its
 * address. */
struct facts_question {
    const struct facts *facts;
    const struct redis_address *address;
    enum redis_kind kind;
    bool as_sentinel;
};
enum facts_verdict facts_judge(const struct facts_question *question, char sentence[REDIS_SENTENCE_BYTES]);
/* An error that the server answered to what was asked of it, as a sentence. */
void facts_explain(const struct facts_question *question, const char *asked, struct slice error,
                   char sentence[REDIS_SENTENCE_BYTES]);

#endif
