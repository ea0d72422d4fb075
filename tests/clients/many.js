// amqplib against a live broker: publishes on a confirm channel and consumes at the same time.
//
//     node many.js URL COUNT
//
// Prints what it saw as one line of JSON.
const amqplib = require('amqplib');

async function main(url, count) {
  const connection = await amqplib.connect(url);
  const consuming = await connection.createChannel();
  const {queue} = await consuming.assertQueue('node', {durable: true});
  await consuming.prefetch(50);
  const bodies = [];
  const all = new Promise((resolve) => {
    consuming.consume(queue, (message) => {
      bodies.push(message.content.toString());
      consuming.ack(message);
      if (bodies.length === count) resolve();
    });
  });

  const publishing = await connection.createConfirmChannel();
  const returned = [];
  publishing.on('return', (message) => returned.push(message.fields.replyText));
  let confirmed = 0;
  for (let number = 0; number < count; number++) {
    publishing.publish('', queue, Buffer.from(`${number}`), {persistent: true}, (error) => {
      if (error === null) confirmed++;
    });
  }
  publishing.publish('', 'nowhere', Buffer.from('lost'), {mandatory: true});
  await publishing.waitForConfirms();
  await all;

  const inOrder = bodies.every((body, number) => body === `${number}`);
  // A mistake closes this channel and no other.
  const mistaken = await connection.createChannel();
  mistaken.on('error', () => {});
  const mistake = await mistaken.checkQueue('nowhere').catch((error) => error.code);
  const left = (await consuming.checkQueue(queue)).messageCount;
  await connection.close();
  console.log(JSON.stringify({confirmed, consumed: bodies.length, inOrder, returned, mistake, left}));
}

main(process.argv[2], Number(process.argv[3])).catch((error) => {
  console.error(error);
  process.exit(1);
});
