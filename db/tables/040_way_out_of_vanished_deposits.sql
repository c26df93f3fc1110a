-- Reading the blocks again is the first thing to do about a deposit that is not there any more: a lost row comes back by it, and a decision does not.
update app.incident_kind set way_out =
  'sluice reindex --chain {chain} --from HEIGHT reads the blocks from below the deposit again: it closes by itself if the deposit is there; if it is gone for good, sluice incident resolve {id} --as reorged takes it back, --as kept leaves it'
where kind = 'final_deposit_vanished';
