/* librabbitmq against a live broker: one consumer that does what it reads from standard input.
 *
 *     delivered PORT QUEUE
 *
 * It consumes from the queue, without a limit, and obeys these lines, each with one line of answer:
 *
 *     next           waits for a delivery: "TAG BODY REDELIVERED COUNT", the count of x-delivery-count or -1
 *     ack TAG, nack TAG                    "sent"
 *     touch TAG, requeue TAG DELAY_MS      publishes the command to amq.leveret.delivery: "confirmed"
 *
 * Exits with 1, and says why, where anything is wrong. */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static amqp_connection_state_t connection;

static void must(int is_right, const char *what) {
  amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
  if (is_right) return;
  fprintf(stderr, "%s: reply type %d, library error %s\n", what, reply.reply_type,
          amqp_error_string2(reply.library_error));
  exit(1);
}

static void answered(const char *what) {
  must(amqp_get_rpc_reply(connection).reply_type == AMQP_RESPONSE_NORMAL, what);
}

static int is_named(amqp_bytes_t name, const char *wanted) {
  return name.len == strlen(wanted) && memcmp(name.bytes, wanted, name.len) == 0;
}

/* The header x-delivery-count, of whatever integer type; -1 without one. */
static int delivery_count(const amqp_basic_properties_t *properties) {
  if (!(properties->_flags & AMQP_BASIC_HEADERS_FLAG)) return -1;
  for (int index = 0; index < properties->headers.num_entries; index++) {
    amqp_table_entry_t *entry = &properties->headers.entries[index];
    if (!is_named(entry->key, "x-delivery-count")) continue;
    switch (entry->value.kind) {
      case AMQP_FIELD_KIND_I8: return entry->value.value.i8;
      case AMQP_FIELD_KIND_I16: return entry->value.value.i16;
      case AMQP_FIELD_KIND_I32: return entry->value.value.i32;
      case AMQP_FIELD_KIND_I64: return (int)entry->value.value.i64;
      default: must(0, "an integer in x-delivery-count");
    }
  }
  return -1;
}

static void next(void) {
  amqp_envelope_t envelope;
  amqp_maybe_release_buffers(connection);
  must(amqp_consume_message(connection, &envelope, NULL, 0).reply_type == AMQP_RESPONSE_NORMAL,
       "a delivery");
  printf("%d %.*s %d %d\n", (int)envelope.delivery_tag, (int)envelope.message.body.len,
         (char *)envelope.message.body.bytes, envelope.redelivered,
         delivery_count(&envelope.message.properties));
  amqp_destroy_envelope(&envelope);
}

static amqp_table_entry_t integer(const char *name, int value) {
  amqp_table_entry_t entry = {.key = amqp_cstring_bytes(name)};
  entry.value.kind = AMQP_FIELD_KIND_I32;
  entry.value.value.i32 = value;
  return entry;
}

/* Publishes a command about a delivery, and waits for its confirm. */
static void command(const char *name, int tag, int delay_ms) {
  amqp_table_entry_t entries[] = {integer("delivery-tag", tag), integer("delay-ms", delay_ms)};
  amqp_basic_properties_t properties = {._flags = AMQP_BASIC_HEADERS_FLAG};
  amqp_frame_t frame;
  properties.headers.num_entries = delay_ms ? 2 : 1;
  properties.headers.entries = entries;
  must(amqp_basic_publish(connection, 1, amqp_cstring_bytes("amq.leveret.delivery"),
                          amqp_cstring_bytes(name), 0, 0, &properties,
                          amqp_empty_bytes) == AMQP_STATUS_OK,
       name);
  must(amqp_simple_wait_frame(connection, &frame) == AMQP_STATUS_OK, "confirm");
  must(frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_ACK_METHOD,
       "an ack");
  puts("confirmed");
}

static void obey(const char *line) {
  int tag, delay_ms;
  if (strcmp(line, "next\n") == 0) {
    next();
  } else if (sscanf(line, "touch %d", &tag) == 1) {
    command("touch", tag, 0);
  } else if (sscanf(line, "requeue %d %d", &tag, &delay_ms) == 2) {
    command("requeue", tag, delay_ms);
  } else if (sscanf(line, "ack %d", &tag) == 1) {
    must(amqp_basic_ack(connection, 1, (uint64_t)tag, 0) == AMQP_STATUS_OK, "ack");
    puts("sent");
  } else if (sscanf(line, "nack %d", &tag) == 1) {
    must(amqp_basic_nack(connection, 1, (uint64_t)tag, 0, 1) == AMQP_STATUS_OK, "nack");
    puts("sent");
  } else {
    fprintf(stderr, "what is %s", line);
    exit(1);
  }
}

int main(int arguments, char **argument) {
  char line[64];
  if (arguments != 3) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  connection = amqp_new_connection();
  amqp_socket_t *tcp = amqp_tcp_socket_new(connection);
  must(amqp_socket_open(tcp, "127.0.0.1", atoi(argument[1])) == AMQP_STATUS_OK, "connect");
  must(amqp_login(connection, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest")
               .reply_type == AMQP_RESPONSE_NORMAL,
       "login");
  amqp_channel_open(connection, 1);
  answered("channel");
  amqp_confirm_select(connection, 1);
  answered("confirm.select");
  amqp_basic_consume(connection, 1, amqp_cstring_bytes(argument[2]), amqp_empty_bytes, 0, 0, 0,
                     amqp_empty_table);
  answered("consume");
  while (fgets(line, sizeof line, stdin)) obey(line);
  must(amqp_connection_close(connection, AMQP_REPLY_SUCCESS).reply_type == AMQP_RESPONSE_NORMAL,
       "close");
  return amqp_destroy_connection(connection) == AMQP_STATUS_OK ? 0 : 1;
}
