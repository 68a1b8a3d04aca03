"""The cases of tests/clients/cases.toml for clients in Python, written once.

A client's folder holds a module `client` that puts its library behind the few calls that the cases make:

    create_topic(topic, partitions, configs), delete_topic(topic), topics(), cluster(), list_offsets(topic, partition)
    partitions(topic)                                     those with a leader; none if there is no such topic
    Producer(codec=…, acks=…, idempotent=…, request_bytes_max=…)   send(topic, partition, record), flush() -> offsets
    TransactionalProducer(transactional_id)               begin(), send, flush, send_offsets(consumer, offsets), commit(), abort()
    Consumer(group=…, strategy=…, instance_id=…, reset=…, isolation=…, wait_ms_max=…)
    CODECS, STRATEGIES, SENDS_NULL_PAIRS                  what the library offers

and, where the library has them, the calls that the cases ask for by `need`. Whatever a broker refuses is raised as
`Refused`. The suite is then one module that imports the case classes.
"""
