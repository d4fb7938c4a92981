"""OrderDesk, the example application: a caller asks about orders 123, 124 and 825, which are fictional.

* `orders`: what there is to know. `grammar`: what the caller may say and the desk may answer.
* `language`: words to meaning. `policy`: meaning to tasks. `backend`: the lookup that does a task.
* `config`: all of it as the options of a session. `demo_script`: the caller of the demonstration.

How numbers are read, how long is waited and how questions are worded is the application's business: all of it is here.
"""
