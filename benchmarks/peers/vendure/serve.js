// Serves both APIs in as many processes as WORKERS says, on one port, and runs the job queue in one more, as the documentation
// recommends. Prints a line when each API process is
// ready, and ends with the first that ends.
const cluster = require('cluster');

const workers = Number(process.env.WORKERS);

async function run() {
  const { bootstrap, bootstrapWorker } = require('@vendure/core');
  const { config } = require('./config');
  if (process.env.ROLE === 'jobs') {
    const worker = await bootstrapWorker(config);
    await worker.startJobQueue();
  } else {
    await bootstrap(config);
  }
}

if (cluster.isPrimary) {
  for (let n = 0; n < workers; n++) cluster.fork({ ROLE: 'api' });
  cluster.fork({ ROLE: 'jobs' });
  cluster.on('listening', () => console.log('ready'));
  cluster.on('exit', () => process.exit(1));
} else {
  run().catch((error) => {
    console.error(error);
    process.exit(1);
  });
}
