/* A Kafka cluster of three brokers that librdkafka mocks, and a consumer of one topic: kafka_cluster TOPIC
 *
 * The first line it prints is the addresses of its brokers. Then a line for each message: the headers id, the key, the
 * header type and the value, each in base64. It reads commands: down, up (all brokers), missing, there (the topic). It ends
 * with its standard input. */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BROKERS 3
#define PARTITIONS 4

static _Atomic int ending;

static void must(int good, const char *what)
{
    if (good) return;
    fprintf(stderr, "kafka_cluster: %s failed\n", what);
    exit(1);
}

static void base64_print(const void *data, size_t len, char end)
{
    unsigned char text[16384];
    must(len < 12000, "a message of moderate length");
    EVP_EncodeBlock(text, data, (int)len);
    printf("%s%c", (char *)text, end);
}

static void header_print(const rd_kafka_headers_t *headers, const char *name)
{
    const void *value;
    size_t len;
    must(rd_kafka_header_get_last(headers, name, &value, &len) == RD_KAFKA_RESP_ERR_NO_ERROR, name);
    base64_print(value, len, ' ');
}

static void message_print(rd_kafka_message_t *message)
{
    rd_kafka_headers_t *headers;
    must(rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR, "reading headers");
    header_print(headers, "id");
    base64_print(message->key, message->key_len, ' ');
    header_print(headers, "type");
    base64_print(message->payload, message->len, '\n');
    fflush(stdout);
}

static rd_kafka_t *client(rd_kafka_type_t type, const char *servers)
{
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    const char *const settings[][2] = {
        { "bootstrap.servers", servers },      { "group.id", "consumer" },    { "auto.offset.reset", "earliest" },
        { "reconnect.backoff.max.ms", "200" }, { "fetch.wait.max.ms", "50" }, { "log_level", "0" },
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (settings[i][1] == NULL || (type == RD_KAFKA_PRODUCER && i > 0)) continue;
        must(rd_kafka_conf_set(conf, settings[i][0], settings[i][1], why, sizeof why) == RD_KAFKA_CONF_OK, settings[i][0]);
    }
    rd_kafka_t *kafka = rd_kafka_new(type, conf, why, sizeof why);
    must(kafka != NULL, why);
    return kafka;
}

static void *consume(void *arg)
{
    rd_kafka_t *kafka = arg;
    while (!ending) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(kafka, 100);
        if (message == NULL) continue;
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) message_print(message);
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static void obey(rd_kafka_mock_cluster_t *cluster, const char *topic, const char *command)
{
    for (int broker = 1; broker <= BROKERS; broker++) {
        if (strcmp(command, "down") == 0) rd_kafka_mock_broker_set_down(cluster, broker);
        if (strcmp(command, "up") == 0) rd_kafka_mock_broker_set_up(cluster, broker);
    }
    if (strcmp(command, "missing") == 0)
        rd_kafka_mock_topic_set_error(cluster, topic, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    if (strcmp(command, "there") == 0) rd_kafka_mock_topic_set_error(cluster, topic, RD_KAFKA_RESP_ERR_NO_ERROR);
}

int main(int argc, char **argv)
{
    must(argc == 2, "usage: kafka_cluster TOPIC");
    rd_kafka_t *host = client(RD_KAFKA_PRODUCER, NULL);
    rd_kafka_mock_cluster_t *cluster = rd_kafka_mock_cluster_new(host, BROKERS);
    must(cluster != NULL, "making a cluster");
    must(rd_kafka_mock_topic_create(cluster, argv[1], PARTITIONS, BROKERS) == RD_KAFKA_RESP_ERR_NO_ERROR, "making a topic");
    const char *servers = rd_kafka_mock_cluster_bootstraps(cluster);
    printf("%s\n", servers);
    fflush(stdout);

    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, servers);
    rd_kafka_topic_partition_list_t *partitions = rd_kafka_topic_partition_list_new(PARTITIONS);
    for (int i = 0; i < PARTITIONS; i++)
        rd_kafka_topic_partition_list_add(partitions, argv[1], i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    must(rd_kafka_assign(consumer, partitions) == RD_KAFKA_RESP_ERR_NO_ERROR, "assigning partitions");
    rd_kafka_topic_partition_list_destroy(partitions);
    pthread_t thread;
    must(pthread_create(&thread, NULL, consume, consumer) == 0, "starting a thread");

    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        obey(cluster, argv[1], line);
    }
    ending = 1;
    pthread_join(thread, NULL);
    return 0;
}
