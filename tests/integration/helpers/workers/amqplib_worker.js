// usage: amqplib_worker.js AMQP-URL QUEUE PREFIX
'use strict';
const amqp = require('amqplib');
const axios = require('axios');
const { Rung } = require('../../../../examples/helpers/node');
const { work } = require('./work.js');

const [url, queue, prefix] = process.argv.slice(2);
const get = (path) => axios.get(process.env.HTTP_URL + path);

(async () => {
  const connection = await amqp.connect(url);
  const channel = await connection.createChannel();
  await channel.prefetch(10);
  const rung = new Rung({ connect: () => connection, prefix, pauseMs: 200 });
  await channel.consume(queue, rung.consumer(channel, queue, (message) =>
    work(message.content.toString(), message.properties.headers, get)));
})().catch((error) => { console.error(error); process.exit(1); });
