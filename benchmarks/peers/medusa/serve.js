// Serves the APIs in as many processes as WORKERS says, on one port, as `medusa start --cluster` does. Prints a line when each of them
// is ready, and ends with the first that ends.
const cluster = require('cluster');

if (cluster.isPrimary) {
  for (let n = 0; n < Number(process.env.WORKERS); n++) cluster.fork();
  cluster.on('listening', () => console.log('ready'));
  cluster.on('exit', () => process.exit(1));
} else {
  const { default: start } = require('@medusajs/medusa/commands/start');
  start({ directory: __dirname, host: '127.0.0.1', port: Number(process.env.PORT) });
}
