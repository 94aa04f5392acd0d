// What the workers do with a body, in Node: as work.py.
'use strict';
const { GiveUp, RetryLater } = require('../../../../examples/helpers/node');

class CardDeclined extends Error {}

exports.work = async (word, headers, get) => {
  const attempt = headers['retry-attempt'] ?? 0;
  console.log(`work ${word} ${attempt} ${headers.traceparent}`);
  if (attempt >= (word === 'twice' ? 2 : 1) || word === 'ok') return;
  if (word === 'never') throw new GiveUp('no such customer');
  if (word === 'flag') throw Object.assign(new CardDeclined('stolen'), { retryNever: true });
  if (word === 'later') throw new RetryLater('in maintenance', '1500ms');
  if (word === 'seconds') await get('/seconds');
  if (word === 'date') await get('/date').catch((cause) => { throw new CardDeclined('the partner is busy', { cause }); });
  throw new CardDeclined(word === 'long' ? 'ü'.repeat(100_000) : 'Карта отклонена – 4711');
};
