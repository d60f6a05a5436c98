/* A small backend on hiredis: hiredis_client PORT NAME. Sells a sale of 100 to 200 buyers in one pipeline. */
#include <hiredis/hiredis.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redisReply *reply_next(redisContext *context)
{
    void *reply = NULL;
    if (redisGetReply(context, &reply) != REDIS_OK) {
        fprintf(stderr, "%s\n", context->errstr);
        exit(1);
    }
    return reply;
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    redisContext *context = redisConnect("127.0.0.1", (int)strtol(argv[1], NULL, 10));
    if (context == NULL || context->err != 0) return 1;

    redisAppendCommand(context, "PING");
    redisAppendCommand(context, "SALE.CREATE %s %d", argv[2], 100);
    for (int i = 0; i < 200; i++) redisAppendCommand(context, "SALE.GRAB %s buyer-%d", argv[2], i);

    redisReply *reply = reply_next(context);
    printf("%s\n", reply->str);
    freeReplyObject(reply);
    freeReplyObject(reply_next(context));

    int won = 0, sold_out = 0;
    for (int i = 0; i < 200; i++) {
        reply = reply_next(context);
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3) return 1;
        won += strcmp(reply->element[0]->str, "WON") == 0 && reply->element[1]->type == REDIS_REPLY_STRING;
        sold_out += strcmp(reply->element[0]->str, "SOLD_OUT") == 0 && reply->element[1]->type == REDIS_REPLY_NIL;
        freeReplyObject(reply);
    }
    printf("%d won\n%d sold out\n", won, sold_out);
    redisFree(context);
    return 0;
}
