// The configuration of Vendure's documentation for production: search index, job queue in the database, no playground.
const { DefaultJobQueuePlugin, DefaultLogger, DefaultSearchPlugin, LogLevel, dummyPaymentHandler } = require('@vendure/core');

exports.config = {
  apiOptions: {
    hostname: '127.0.0.1',
    port: Number(process.env.PORT),
    adminApiPath: 'admin-api',
    shopApiPath: 'shop-api',
    introspection: false,
  },
  authOptions: {
    tokenMethod: ['cookie', 'bearer'],
    superadminCredentials: { identifier: 'superadmin', password: process.env.ADMIN_PASSWORD },
    cookieOptions: { secret: process.env.COOKIE_SECRET },
  },
  dbConnectionOptions: {
    type: 'postgres',
    url: process.env.DATABASE_URL,
    synchronize: process.env.CREATE_TABLES === '1',
    logging: false,
  },
  paymentOptions: { paymentMethodHandlers: [dummyPaymentHandler] },
  logger: new DefaultLogger({ level: LogLevel.Error }),
  plugins: [DefaultJobQueuePlugin.init({ useDatabaseForBuffer: true }), DefaultSearchPlugin.init({ bufferUpdates: false })],
};
