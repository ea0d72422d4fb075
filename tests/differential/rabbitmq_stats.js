// Each call of the npm package rabbitmq-stats; prints what it is answered, as one JSON object.
const stats = require('rabbitmq-stats')(`http://127.0.0.1:${process.argv[2]}`, 'guest', 'guest');

const picked = (row, ...names) => names.map((name) => row[name]);
const everything = {configure: '.*', write: '.*', read: '.*'};
// Rows of all vhosts: those of n.v, with these columns.
const of = (rows, ...names) => rows.filter((row) => row.vhost === 'n.v').map((row) => picked(row, ...names));

const calls = {
  overview: () => stats.getOverview().then((row) => Object.keys(row.object_totals).sort()),
  nodes: () => stats.getNodes().then((rows) => rows.map((row) => picked(row, 'type', 'running'))),
  node: () => stats.getNodes().then((rows) => stats.getNode(rows[0].name)).then((row) => row.running),
  extensions: () => stats.getExtensions().then(Array.isArray),
  putVhost: () => stats.putVhost('n.v', {}),
  putVhostAgain: () => stats.putVhost('n.v', {}),
  getVhost: () => stats.getVhost('n.v').then((row) => row.name),
  getVhosts: () => stats.getVhosts().then((rows) => rows.map((row) => row.name).includes('n.v')),
  setUserPermissions: () => stats.setUserPermissions('guest', 'n.v', everything),
  getUserPermissions: () => stats.getUserPermissions('guest').then((rows) => of(rows, 'user', 'read')),
  putVhostExchange: () => stats.putVhostExchange('n.v', 'n.e', {type: 'topic', durable: true}),
  putVhostExchangeAgain: () => stats.putVhostExchange('n.v', 'n.e', {type: 'direct'}),
  getVhostExchange: () => stats.getVhostExchange('n.v', 'n.e').then((row) => picked(row, 'type', 'durable')),
  getVhostExchanges: () => stats.getVhostExchanges('n.v').then((rows) => rows.map((row) => picked(row, 'name', 'type'))),
  getExchanges: () => stats.getExchanges().then((rows) => of(rows, 'name', 'type')),
  putVhostQueue: () => stats.putVhostQueue('n.v', 'n.q', {durable: true, arguments: {'x-max-length': 3}}),
  putVhostQueueAgain: () => stats.putVhostQueue('n.v', 'n.q', {durable: false}),
  getVhostQueue: () => stats.getVhostQueue('n.v', 'n.q').then((row) => picked(row, 'name', 'arguments')),
  getVhostQueues: () => stats.getVhostQueues('n.v', {page: 1, columns: 'name'}),
  getVhostQueuesSorted: () => stats.getVhostQueues('n.v', {sort: 'name', sort_reverse: true, columns: 'name,durable'}),
  getVhostQueuesOfNoPage: () => stats.getVhostQueues('n.v', {page: 7}),
  getQueues: () => stats.getQueues().then((rows) => of(rows, 'name')),
  getQueuesByName: () => stats.getQueues({page: 1, page_size: 5, name: '^n.q$', use_regex: true, columns: 'name'}),
  getVhostBindings: () => stats.getVhostBindings('n.v'),
  getBindings: () => stats.getBindings().then((rows) => of(rows, 'destination', 'routing_key')),
  getVhostConsumers: () => stats.getVhostConsumers('n.v'),
  getConsumers: () => stats.getConsumers().then((rows) => rows.length),
  getConnections: () => stats.getConnections().then((rows) => rows.length),
  getConnection: () => stats.getConnection('none'),
  deleteConnection: () => stats.deleteConnection('none'),
  getChannels: () => stats.getChannels().then((rows) => rows.length),
  getChannel: () => stats.getChannel('none'),
  putUser: () => stats.putUser('n.u', {password: 'secret', tags: 'monitoring,mine'}),
  putUserOfNothing: () => stats.putUser('n.x', {}),
  getUser: () => stats.getUser('n.u').then((row) => picked(row, 'name', 'tags')),
  getUsers: () => stats.getUsers().then((rows) => rows.map((row) => row.name).includes('n.u')),
  deleteUser: () => stats.deleteUser('n.u'),
  getCurrentUser: () => stats.getCurrentUser(),
  getPolicies: () => stats.getPolicies().then((rows) => of(rows, 'name')),
  deleteVhostQueueContents: () => stats.deleteVhostQueueContents('n.v', 'n.q'),
  deleteVhostQueue: () => stats.deleteVhostQueue('n.v', 'n.q'),
  getNoQueue: () => stats.getVhostQueue('n.v', 'n.q'),
  deleteVhostExchange: () => stats.deleteVhostExchange('n.v', 'n.e'),
  deleteNoExchange: () => stats.deleteVhostExchange('n.v', 'n.e'),
  deleteVhost: () => stats.deleteVhost('n.v'),
  getNoVhost: () => stats.getVhost('n.v'),
};

async function main() {
  const found = {};
  for (const [name, call] of Object.entries(calls)) {
    try {
      const answer = await call();
      found[name] = answer === undefined ? null : answer;
    } catch (refused) {
      if (refused.statusCode === undefined) throw refused;
      found[name] = {status: refused.statusCode, error: refused.error};
    }
  }
  console.log(JSON.stringify(found));
}

main();
