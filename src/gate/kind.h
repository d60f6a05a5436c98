/* kind: what a gate does, whichever it is. Inside this room only.
 *
 * A gate and a lane of some kind begin with these; gate.c hands every call to the functions of its kind. */
#ifndef STAMPEDE_GATE_KIND_H
#define STAMPEDE_GATE_KIND_H

#include "gate/gate.h"

struct gate_kind {
    enum fault (*start)(struct gate *gate);
    void (*close)(struct gate *gate);
    enum fault (*lane_open)(struct gate_lane **out, struct gate *gate, void (*wake)(void *arg), void *arg);
    void (*lane_close)(struct gate_lane *lane);
    enum fault (*lane_attach)(struct gate_lane *lane, struct uv_loop_s *loop);
    void (*lane_detach)(struct gate_lane *lane);
    void (*lane_rise)(struct gate_lane *lane);
    void (*lane_rest)(struct gate_lane *lane);
    bool (*await)(struct gate_lane *lane, uint64_t seq, struct gate_ticket *ticket);
    uint64_t (*now_ms)(const struct gate *gate);
    void (*grab)(struct gate_lane *lane, struct grab *grab, struct gate_ticket *ticket);
    void (*grabs)(struct gate_lane *lane, struct gate_grab *grabs, uint32_t count);
    void (*grabs_ask)(struct gate_lane *lane, struct gate_grab *grabs, uint32_t count, struct gate_ticket *ticket);
    void (*token)(struct gate_lane *lane, struct token_ask *ask, struct gate_ticket *ticket);
    void (*create)(struct gate_lane *lane, struct asker *seller, const struct sale_terms *terms, uint32_t stock,
                   struct gate_ticket *ticket);
    void (*change)(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, const struct sale_change *change,
                   struct gate_ticket *ticket);
    void (*stock)(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, int64_t add, struct gate_ticket *ticket);
    void (*turn)(struct gate_lane *lane, struct asker *asker, uint64_t sale_id, enum decision_kind kind,
                 struct gate_ticket *ticket);
    void (*pay)(struct gate_lane *lane, struct payment *payment, struct gate_ticket *ticket);
    void (*pay_past)(struct gate_lane *lane, struct payment *payment, struct slice ref_taken, struct gate_ticket *ticket);
    void (*cancel)(struct gate_lane *lane, struct cancel *cancel, struct gate_ticket *ticket);
    bool (*expire)(struct gate_lane *lane, struct gate_ticket *ticket);
    bool (*is_here)(const struct gate *gate);
    void (*look)(struct gate_lane *lane, uint64_t sale_id, struct gate_ticket *ticket);
    void (*meet)(struct gate_lane *lane, const struct gate_stranger *stranger, struct gate_ticket *ticket);
    bool (*is_strange)(struct gate *gate, const struct gate_stranger *stranger);
    void (*warm)(struct gate_lane *lane, uint64_t sale_id, struct gate_ticket *ticket);
    void (*tell_logouts)(struct gate *gate, const struct gate_logouts *logouts);
    bool (*owns)(struct gate *gate, enum gate_job job, struct ledger_fence *fence);
    void (*disown)(struct gate *gate, enum gate_job job, const struct ledger_fence *fence);
    bool (*give_away)(struct gate *gate, enum gate_job job);
    void (*report)(struct gate *gate, struct slice report);
    void (*nodes_each)(struct gate *gate, void (*look)(const struct gate_node *node, void *arg), void *arg);
    bool (*order_possible)(struct gate *gate, uint64_t order_no);
    const uint8_t *(*uuid)(const struct gate *gate);
    uint64_t (*seq_durable)(const struct gate *gate);
    bool (*sale)(struct gate *gate, uint64_t sale_id, struct sale *out);
    uint64_t (*sale_by_name)(struct gate *gate, struct slice seller, struct slice name);
    uint64_t (*names_version)(const struct gate *gate);
    void (*sales_each)(struct gate *gate, void (*look)(const struct sale *sale, void *arg), void *arg);
    bool (*sale_is_past)(struct gate *gate, uint64_t sale_id);
    bool (*was_kept)(const struct gate *gate, uint64_t since_ms);
    bool (*sale_notice)(const struct gate *gate, uint64_t sale_id, struct board_notice *out);
    void (*order)(struct gate_lane *lane, uint64_t order_no, struct gate_ticket *ticket);
    uint64_t (*seq_decided)(struct gate *gate);
    uint64_t (*seq_past)(const struct gate *gate);
    void (*status)(struct gate *gate, struct gate_status *out);
    struct journal *(*journal)(struct gate *gate);
    void (*housekeep)(struct gate *gate, uint64_t seq_filed);
};

struct gate {
    const struct gate_kind *kind;
};

struct gate_lane {
    struct gate *gate;
};

#endif
