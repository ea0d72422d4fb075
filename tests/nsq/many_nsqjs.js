// nsqjs against a live broker: node many_nsqjs.js PORT OPTIONS, with NODE_PATH where nsqjs is.
// Publishes each way, consumes, gives back with a delay, touches; OPTIONS is JSON for reader and
// writer. Prints what it saw as one line of JSON.
'use strict';
const nsq = require('nsqjs');

const port = Number(process.argv[2]);
const options = JSON.parse(process.argv[3] || '{}');
const seen = {bodies: [], errors: []};

function wrote(send) {
  return new Promise((resolve, reject) => send((error) => (error ? reject(error) : resolve())));
}

function refused(settings, act) {
  return new Promise((resolve) => {
    const writer = new nsq.Writer('127.0.0.1', port, settings);
    writer.on('error', (error) => resolve(String(error.message || error).split(' ')[0]));
    writer.on('ready', () => act(writer, (error) => {
      if (error) resolve(String(error.message || error).split(' ')[0]);
    }));
    writer.connect();
  });
}

async function main() {
  const writer = new nsq.Writer('127.0.0.1', port, options);
  writer.on('error', () => {});
  const ready = new Promise((resolve) => writer.on('ready', resolve));
  writer.connect();
  await ready;
  await wrote((done) => writer.publish('t', 'one', done));
  await wrote((done) => writer.publish('t', ['two', 'three'], done));
  await wrote((done) => writer.deferPublish('t', ['four'], 50, done));

  const reader = new nsq.Reader('t', 'c', {
    ...options, nsqdTCPAddresses: `127.0.0.1:${port}`, maxInFlight: 4, maxBackoffDuration: 1,
  });
  reader.on('error', (error) => seen.errors.push(String(error)));
  let began = 0;
  const all = new Promise((resolve) => {
    reader.on('message', (message) => {
      const body = message.body.toString();
      seen.bodies.push(`${body} ${message.attempts}`);
      if (body === 'two' && message.attempts === 1) {
        began = Date.now();
        // The reader backs off: RDY 0, and then 1.
        message.requeue(300, true);
        return;
      }
      if (body === 'two') seen.delayed = Date.now() - began >= 299;
      message.touch();
      message.finish();
      if (seen.bodies.length === 5) resolve();
    });
  });
  reader.connect();
  await all;
  seen.bodies.sort();
  seen.refused = [
    await refused({authSecret: 'guest:wrong'}, () => {}),
    await refused({}, (other, done) => other.publish('bad!', 'x', done)),
  ];
  console.log(JSON.stringify(seen));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
