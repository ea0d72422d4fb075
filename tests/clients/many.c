/* librabbitmq against a live broker: publishes with confirms, then consumes all and acks.
 *
 *     many PORT COUNT
 *
 * Prints "confirmed N consumed N in order". Exits with 1, and says why, where anything is wrong. */
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

static void publish(amqp_bytes_t queue, int count) {
  amqp_basic_properties_t properties = {0};
  properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG;
  properties.delivery_mode = 2;
  for (int number = 0; number < count; number++) {
    char body[16];
    snprintf(body, sizeof body, "%d", number);
    must(amqp_basic_publish(connection, 1, amqp_empty_bytes, queue, 0, 0, &properties,
                            amqp_cstring_bytes(body)) == AMQP_STATUS_OK,
         "publish");
  }
}

/* Confirms may come singly and together, and in any order: each number is marked. */
static int confirmed(int count) {
  char *is_done = calloc((size_t)count + 1, 1);
  int done = 0;
  while (done < count) {
    amqp_frame_t frame;
    must(amqp_simple_wait_frame(connection, &frame) == AMQP_STATUS_OK, "confirm");
    must(frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_ACK_METHOD,
         "an ack");
    amqp_basic_ack_t *ack = frame.payload.method.decoded;
    for (uint64_t tag = ack->multiple ? 1 : ack->delivery_tag; tag <= ack->delivery_tag; tag++) {
      done += !is_done[tag];
      is_done[tag] = 1;
    }
  }
  free(is_done);
  return done;
}

static int consumed(amqp_bytes_t queue, int count) {
  amqp_basic_consume(connection, 1, queue, amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
  answered("consume");
  for (int number = 0; number < count; number++) {
    amqp_envelope_t envelope;
    char body[16];
    amqp_maybe_release_buffers(connection);
    must(amqp_consume_message(connection, &envelope, NULL, 0).reply_type == AMQP_RESPONSE_NORMAL,
         "a delivery");
    int size = snprintf(body, sizeof body, "%d", number);
    must(envelope.message.body.len == (size_t)size &&
             memcmp(envelope.message.body.bytes, body, (size_t)size) == 0,
         "deliveries in order");
    must(amqp_basic_ack(connection, 1, envelope.delivery_tag, 0) == AMQP_STATUS_OK, "ack");
    amqp_destroy_envelope(&envelope);
  }
  return count;
}

int main(int arguments, char **argument) {
  if (arguments != 3) return 2;
  int count = atoi(argument[2]);
  connection = amqp_new_connection();
  amqp_socket_t *tcp = amqp_tcp_socket_new(connection);
  must(amqp_socket_open(tcp, "127.0.0.1", atoi(argument[1])) == AMQP_STATUS_OK, "connect");
  must(amqp_login(connection, "/", 0, 131072, 60, AMQP_SASL_METHOD_PLAIN, "guest", "guest")
               .reply_type == AMQP_RESPONSE_NORMAL,
       "login");
  amqp_channel_open(connection, 1);
  answered("channel");
  amqp_bytes_t queue = amqp_cstring_bytes("c");
  amqp_queue_declare(connection, 1, queue, 0, 1, 0, 0, amqp_empty_table);
  answered("declare");
  amqp_confirm_select(connection, 1);
  answered("confirm.select");
  publish(queue, count);
  int number = confirmed(count);
  printf("confirmed %d consumed %d in order\n", number, consumed(queue, count));
  must(amqp_connection_close(connection, AMQP_REPLY_SUCCESS).reply_type == AMQP_RESPONSE_NORMAL,
       "close");
  return amqp_destroy_connection(connection) == AMQP_STATUS_OK ? 0 : 1;
}
