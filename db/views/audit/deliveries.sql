-- A row is a delivery whose attempts contradict its status, or a second delivery of the same event to the same endpoint.
create or replace view audit.deliveries as
select d.event_id, d.endpoint_id, 'delivered, and no attempt succeeded' as wrong from app.delivery d where d.status = 'delivered'
  and not exists (select from app.delivery_attempt a where a.delivery_id = d.id and a.error is null)
union all
select d.event_id, d.endpoint_id, 'to an endpoint of another merchant' from app.delivery d
left join app.event e on e.id = d.event_id left join app.webhook_endpoint w on w.id = d.endpoint_id
where e.merchant_id is null or e.merchant_id is distinct from w.merchant_id
union all
select event_id, endpoint_id, count(*) || ' times' from app.delivery group by event_id, endpoint_id having count(*) > 1;
comment on view audit.deliveries is 'an event is delivered once to an endpoint of its merchant, and a delivered one got a response of success';
comment on column audit.deliveries.event_id is 'The event.';
comment on column audit.deliveries.endpoint_id is 'The endpoint.';
comment on column audit.deliveries.wrong is 'What is wrong with the delivery.';
