-- A row is a height of a chain at which the stored blocks do not link. Blocks below the final one, which are kept to find a fork, are not checked.
create or replace view audit.blocks as
select c.chain, c.final_height as height, 'the final block is not among the blocks' as wrong from chain.cursor c
where not exists (select from chain.block b where b.chain = c.chain and b.height = c.final_height and b.hash = c.final_hash)
union all
select c.chain, c.head_height, 'the head is not the newest of the blocks' from chain.cursor c
where not exists (select from chain.block b where b.chain = c.chain and b.height = c.head_height and b.hash = c.head_hash
  and not exists (select from chain.block above where above.chain = c.chain and above.height > b.height))
union all
select chain, height, 'does not link to the block below' from (
  select b.chain, b.height, b.parent_hash, lag(b.hash) over (partition by b.chain order by b.height) as below
  from chain.block b join chain.cursor c using (chain) where b.height >= c.final_height
) link where parent_hash not in ('', below);
comment on view audit.blocks is 'the blocks from the final one to the head form one linked chain, and the final height lies on it';
comment on column audit.blocks.height is 'The height.';
comment on column audit.blocks.wrong is 'What is wrong there.';
